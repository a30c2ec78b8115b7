package app

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/report"
)

// planner evaluates the site for a run on this node.
type planner struct {
	Env    *Env
	Host   *Host
	Where  Where
	Store  *generation.Store
	Report *report.Reporter

	node *openNode
}

// Close closes the node of the last plan.
func (p *planner) Close() {
	if p.node != nil {
		p.node.Close()
	}
}

// Plan opens the node again and evaluates its site. It returns the plan, with what applying it needs if it is complete.
func (p *planner) Plan(ctx context.Context) commit.Options {
	p.Close()

	now := p.Host.Clock.Now
	began := now()
	n, diags, err := p.Env.open(p.Where, p.Store)
	took := now().Sub(began)
	p.Report.Span(report.KindStep, "read the site", began, took)
	if err != nil {
		failed := origin.Error(fault.Internal, hcl.Range{}, "The site cannot be opened", "%s", err)
		return commit.Options{Plan: &boot.Plan{Diagnostics: hcl.Diagnostics{failed}}}
	}

	p.node = n
	n.source = timeQuestions(n.source, now, p.Report.StageSpan)
	if diags.HasErrors() {
		return commit.Options{Plan: &boot.Plan{Site: n.Site, Diagnostics: diags}}
	}

	stopExtending := p.Host.extendTimeout()
	defer stopExtending()

	out := n.Plan(ctx, func(e boot.StageReport) {
		p.Report.Event(newEvent(e))
		if p.Env.Progress != nil {
			p.Env.Progress(e)
		}
	})
	out.Diagnostics = append(diags, out.Diagnostics...)
	keepCounter(p.Where.stateDir(), out)
	o := n.ApplyOptions(out)
	if !out.Complete {
		return o
	}

	o.Flags = commit.Flags(out)
	o.Healthz = commit.HealthzURL(out)
	o.NodeName = commit.NodeName(out, p.Host.Hostname)

	return o
}

func newEvent(e boot.StageReport) report.Event {
	state := e.State
	if state == "running" {
		state = report.Started
	}
	return report.Event{
		Stage: e.Address,
		State: state,
		Took:  e.Took,
	}
}

// Remember stores what is known about programs that stay the same, so that later boots need not start the kubelet's
// binary and read those of detectors.
func (p *planner) Remember(res commit.Result) {
	if res.Plan == nil || !res.Plan.Complete {
		return
	}
	err := errors.Join(p.keepKubelet(res.Plan), p.node.keepDigests())
	if err != nil { // the next boot finds it out again, and is slower by that
		p.Report.Event(report.Event{
			Stage:   "report",
			State:   report.Notice,
			Summary: "the next boot starts the kubelet's binary and reads the detectors again: " + err.Error(),
		})
	}
}

// keepKubelet stores the output of the kubelet's binary. Stored output of the same file is not written again.
func (p *planner) keepKubelet(plan *boot.Plan) error {
	binary := p.node.live.KubeletBinary()
	if plan.Kubelet.Version == nil || binary == nil {
		return nil
	}
	c, ok := binary.Keep(*plan.Kubelet.Version, plan.Accepts)
	if !ok {
		return nil
	}
	text, err := c.Marshal()
	if err != nil {
		return err
	}

	return commit.WriteIfChanged(filepath.Join(p.Host.stateDir(), kubeletbin.CacheFile), text)
}
