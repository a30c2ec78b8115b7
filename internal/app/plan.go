package app

import (
	"context"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report/printer"
)

// Planned is the site over one node.
type Planned struct {
	Source     string     // the recording, where the command is over a folder of them; else ""
	Err        error      // why there is no plan for this recording; nil with a plan
	Plan       *boot.Plan // nil where Err is set
	Generation int        // the one in place; 0 before the first
	Held       string     // why a run would not apply the plan; "" where it would
}

// Plans adds up the plans of a command.
type Plans struct {
	Recordings int        // of the folder; 0 for one node
	Changed    int        // complete plans that would change something
	Degraded   int        // plans without an error that are not wholly as the site says
	Incomplete int        // plans without an error for which the recording lacks an answer
	Different  int        // complete plans that differ from each other
	Failed     []Failed   // recordings, by name
	Code       fault.Code // of the command; "" where every plan has been made
}

// Plan evaluates the site over the node of w or, where w.From is a folder, over each recording in it. It writes
// nothing. show gets each plan as soon as it is made; an error of show ends the command. begin gets each recording of a
// folder before it is read. A failure over one node is the error, a failure over one recording of a folder is in its
// Planned.
func (e *Env) Plan(
	ctx context.Context, w Where, begin func(source string), show func(Planned) error,
) (Plans, error) {
	var sum planSum

	err := eachRecording(ctx, w, begin, func(one Where, source string) error {
		p, err := e.planNode(ctx, one)
		if err != nil && source == "" {
			return err
		}
		p.Source, p.Err = source, err
		sum.add(p)
		return show(p)
	})
	return sum.result(), err
}

// planNode evaluates the site over one node.
func (e *Env) planNode(ctx context.Context, w Where) (Planned, error) {
	n, found, err := e.open(w, nil)
	if err != nil {
		return Planned{}, err
	}
	defer n.Close()

	out := Planned{Plan: n.planUnless(ctx, found, e.Progress), Generation: n.Generation()}
	if n.Store != nil && out.Plan.Complete {
		out.Held = apply.WhyHeld(n.Store, out.Plan)
	}
	return out, nil
}

// code is that of the error or of the plan; "" where neither failed.
func (p Planned) code() fault.Code {
	if p.Err != nil {
		return fault.CodeOf(p.Err)
	}
	return origin.Code(p.Plan.Diagnostics)
}

// planSum counts plans.
type planSum struct {
	plans  Plans
	codes  []fault.Code
	hashes map[string]bool
}

// add counts one plan.
func (s *planSum) add(p Planned) {
	if p.Source != "" {
		s.plans.Recordings++
	}

	code := p.code()
	s.codes = append(s.codes, code)
	if code != "" {
		s.plans.Failed = append(s.plans.Failed, Failed{p.Source, code})
		return
	}

	if len(p.Plan.Degraded) > 0 {
		s.plans.Degraded++
	}
	if !p.Plan.Complete { // whether it would change something is unknown
		s.plans.Incomplete++
		return
	}
	if (present.View{Plan: p.Plan}).Changes() {
		s.plans.Changed++
	}
	if s.hashes == nil {
		s.hashes = map[string]bool{}
	}
	s.hashes[p.Plan.Hash] = true
}

// result returns the counts with the code of the command.
func (s *planSum) result() Plans {
	s.plans.Different, s.plans.Code = len(s.hashes), lowestCode(s.codes)

	return s.plans
}
