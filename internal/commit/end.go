package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report"
)

// endingKind is the way in which a run ends.
type endingKind int

const (
	activated   endingKind = iota // committed, or there was nothing to commit
	failed                        // before the commit: the plan, a credential, a file, systemd, a signal
	broken                        // the files may be mixed, or the generations could not be read
	withoutSite                   // there is no site
	switchedOff                   // prelet=off
	byHand                        // prelet rollback
)

// ending contains all inputs of the decision how a run ends.
type ending struct {
	kind    endingKind
	changed bool // a generation was committed

	code     fault.Code // of the failure; "" without one
	failure  string     // the failure in one line
	err      error      // an error that is not in the plan's diagnostics
	planCode fault.Code // of the plan's first error; "" without one
	stopped  bool       // by a signal; code is fault.Interrupted then
	lastGood bool       // the node has joined, and the site allows it to continue without the cluster

	held          string // why the site's plan is not applied; "" when it is
	releaseFailed bool   // the plan was to be released, and that failed before the commit

	to               int              // the generation whose contents were chosen by hand
	why              string           // the reason given with that choice
	generationBefore int              // the generation in place when the run began; 0: there never was one
	out              activate.Outcome // the result of activate
	activateErr      error            // the error of activate
	shut             bool             // the gate is shut, as far as it could be read
	good             bool             // the generation in place was judged good
	foreign          bool             // the generation in place was made on another machine
}

// hold is whether a plan is held.
type hold struct {
	why     string // "" when it is not held
	release bool   // the plan is released with the commit
}

// outcome is how a run ends.
type outcome struct {
	code          fault.Code
	summary       string // one line
	reason        string // what failed before the commit
	err           error
	held          string          // why the site's plan is not applied
	heldBack      string          // why the kubelet may not start; "" when it may, or when that was reported before
	degradedFirst []report.Reason // deviations from the site, reported before the generation in place
	degraded      []report.Reason // the same, reported after the generation in place
	quiet         bool            // the generation in place is not reported
}

// decide returns how a run ends. It is pure, and the only place of this decision.
func decide(e ending) outcome {
	var o outcome

	switch e.kind {
	case failed:
		o = decideFailed(e)
	case broken:
		o = decideBroken(e)
	case withoutSite:
		o = decideWithoutSite(e)
	case switchedOff:
		o = decideSwitchedOff(e)
	case byHand:
		o = decideByHand(e)
	default:
		o = decideActivated(e)
	}

	if e.held == "" {
		return o
	}

	o.held = e.held
	note := report.Reason{Code: string(fault.Held), Summary: e.held}

	if e.releaseFailed {
		o.degraded = append(o.degraded, note)
	} else {
		o.degradedFirst = append(o.degradedFirst, note)

		if o.code == "" {
			o.summary += "; the site's plan is held"
		}
	}

	return o
}

// decideActivated handles a run that reached activation, with a commit or without one.
func decideActivated(e ending) outcome {
	o := outcome{code: e.out.Code, err: e.activateErr, heldBack: e.out.HeldBack, summary: Summarize(e.out, e.changed)}
	if e.out.Held {
		o.held = e.out.Why
	}

	switch {
	case e.activateErr != nil:
		o.code, o.summary, o.heldBack = fault.CodeOf(e.activateErr), e.activateErr.Error(), ""

		if e.shut {
			o.heldBack = e.activateErr.Error()
		}
	case e.out.HeldBack != "":
		o.summary = e.out.HeldBack
	}

	return o
}

// decideFailed handles a failure before the commit: the generation in place stays if possible. A failure of the cluster
// is fixed on its side. A node that has joined and has a good generation therefore starts, and its run does not fail.
func decideFailed(e ending) outcome {
	o := outcome{code: e.code, err: e.err, reason: e.failure, summary: e.failure, heldBack: e.out.HeldBack}

	switch {
	case e.activateErr != nil:
		o.err = errors.Join(e.err, fmt.Errorf("the generation in place could not be kept: %w", e.activateErr))
		o.summary, o.heldBack = e.failure+"; "+e.activateErr.Error(), ""

		return o
	case e.out.HeldBack != "" || e.out.Generation == 0:
		return o
	}

	o.summary = fmt.Sprintf("%s; generation %d stays in charge", e.failure, e.out.Generation)
	if e.out.From != 0 { // it had no verdict yet, and was unhealthy
		o.summary = e.failure + "; " + Summarize(e.out, true)
	}

	told := e.code
	if e.planCode != "" {
		told = e.planCode
	}

	o.degraded = []report.Reason{{Code: string(told), Summary: o.summary}}
	if isClusterCode(e.code) && e.lastGood && e.good {
		o.code = e.out.Code
	}

	return o
}

// isClusterCode reports whether a failure is caused by the cluster.
func isClusterCode(code fault.Code) bool {
	switch code {
	case fault.ClusterUnreachable, fault.ClusterUntrusted, fault.ClusterDenied, fault.ClusterUnusable:
		return true
	}

	return false
}

// decideBroken handles a failure while the files may be mixed, or while the generations cannot be read: the gate stays
// as it is; at boot that is shut.
func decideBroken(e ending) outcome {
	o := outcome{code: e.code, summary: e.failure, err: e.err, quiet: true}
	if e.shut {
		o.heldBack, o.err = e.failure, errors.Join(e.err, e.activateErr)
	}

	return o
}

// decideWithoutSite handles a node without a site: prelet is not in use, or the generation in place stays.
func decideWithoutSite(e ending) outcome {
	o := decideActivated(e)

	switch {
	case e.generationBefore == 0 && o.code == "":
		o.summary = "there is no site, so prelet is not in use; the kubelet starts as it is"
	case e.generationBefore != 0:
		stays := fmt.Sprintf("there is no site any more; generation %d stays", e.generationBefore)
		o.degradedFirst = []report.Reason{{Code: string(fault.NoSite), Summary: stays}}

		if o.code == "" && e.out.HeldBack != "" {
			o.code, o.summary = fault.NoSite, e.out.HeldBack
		}
	}

	return o
}

// decideSwitchedOff handles prelet=off: the gate opens on the generation in place, judged or not.
func decideSwitchedOff(e ending) outcome {
	if e.activateErr != nil {
		return outcome{
			code:    fault.CodeOf(e.activateErr),
			err:     e.activateErr,
			summary: e.activateErr.Error(),
			quiet:   true,
		}
	}

	why := "nothing was planned, changed or judged: prelet=off stands on the kernel command line"
	if e.foreign {
		why += fmt.Sprintf(
			"; generation %d was made on another machine, and the kubelet starts as that one", e.out.Generation,
		)
	}

	return outcome{summary: why, degraded: []report.Reason{{Code: string(fault.Held), Summary: why}}}
}

// decideByHand handles a rollback by hand. A failed rollback is not reported.
func decideByHand(e ending) outcome {
	if e.activateErr != nil {
		return outcome{
			code:    fault.CodeOf(e.activateErr),
			err:     e.activateErr,
			summary: e.activateErr.Error(),
			quiet:   true,
		}
	}

	o := outcome{
		code: e.out.Code, quiet: true, heldBack: e.out.HeldBack,
		summary: fmt.Sprintf("generation %d is in place, with the contents of %d, by hand", e.out.Generation, e.to),
		held: fmt.Sprintf(
			"generation %d was chosen by hand (%s); prelet rollback --release lets go of it", e.to, e.why,
		),
	}
	o.degradedFirst = []report.Reason{{Code: string(fault.Held), Summary: o.held}}

	if e.out.Code != "" {
		o.summary += ": " + e.out.Why
	}

	if e.out.Verdict == activate.Unknown {
		unjudged := fmt.Sprintf(
			"nobody could tell whether the kubelet is well on generation %d; prelet verify looks", e.out.Generation,
		)
		o.degraded = []report.Reason{{Code: string(fault.Unjudged), Summary: unjudged}}
	}

	return o
}

// end ends a run: it carries out the ending, decides the outcome and reports it.
func (r *Run) end(ctx context.Context, p *boot.Plan, h hold, e ending) Result {
	e.out, e.activateErr = r.carryOut(ctx, e)
	e.shut = r.isShut()
	e.foreign = r.isForeign()

	switch {
	case h.why != "" && !h.release:
		e.held = h.why
	case h.why != "" && !e.changed && (e.err != nil || e.activateErr != nil):
		e.held, e.releaseFailed = r.whyHeld(p), true
	}

	if cur, err := r.Store.Current(); err == nil && cur != nil {
		e.good = cur.Status == generation.StatusGood

		if cur.Adopted {
			note := fmt.Sprintf("generation %d has the files as they were found", cur.Gen)
			if r.Store.KnowsBefore() != nil {
				note += "; what they were before prelet is not known"
			}

			r.Report.Note(string(fault.Adopted), note)
		}
	}

	o := decide(e)
	r.reportOutcome(p, e, o)

	if e.kind == withoutSite && e.generationBefore == 0 {
		p = nil // a missing site is not an error of the plan
	}

	return Result{
		Plan: p, Outcome: e.out, Changed: e.changed, Held: o.held, Code: o.code, Reason: o.reason, Summary: o.summary,
		Err: o.err,
	}
}

// endFailed ends a run before its commit. err is an error that is not in p's diagnostics.
func (r *Run) endFailed(ctx context.Context, p *boot.Plan, h hold, code fault.Code, err error) Result {
	e := ending{kind: failed, code: code, err: err, failure: describeFailure(p, err)}
	if p != nil {
		e.planCode = origin.Code(p.Diagnostics)
		e.lastGood = p.Kubelet.Joined && p.OnCluster == "last-good"
	}

	if ctx.Err() != nil {
		e.stopped, e.code = true, fault.Interrupted
		e.failure = "stopped before anything was changed: " + context.Cause(ctx).Error()
	}

	return r.end(ctx, p, h, e)
}

// KeepWithoutRun ends a boot in which no run could begin: the generation in place stays if possible.
func (r *Run) KeepWithoutRun(ctx context.Context, err error) Result {
	if _, broken := r.Machine.Recover(ctx); broken != nil {
		return r.endBroken(ctx, broken)
	}

	return r.endFailed(ctx, nil, hold{}, fault.CodeOf(err), err)
}

func (r *Run) endBroken(ctx context.Context, err error) Result {
	return r.end(ctx, nil, hold{}, ending{kind: broken, code: fault.CodeOf(err), failure: err.Error(), err: err})
}

func (r *Run) endActivated(ctx context.Context, p *boot.Plan, h hold, out activate.Outcome, err error) Result {
	return r.end(ctx, p, h, ending{kind: activated, out: out, activateErr: err})
}

// carryOut keeps the generation in place if possible, or shuts the gate with the reason.
func (r *Run) carryOut(ctx context.Context, e ending) (activate.Outcome, error) {
	switch e.kind {
	case failed:
		if e.stopped {
			var cancel context.CancelFunc

			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
			defer cancel()
		}

		return r.Machine.Keep(ctx, e.failure)
	case broken:
		shut, err := r.Machine.KeepShut(e.failure)
		if !shut {
			return e.out, nil
		}

		return activate.Outcome{HeldBack: e.failure}, err
	case withoutSite:
		return r.Machine.KeepWithoutSite(ctx)
	case switchedOff:
		return r.Machine.SwitchOff(ctx)
	}

	return e.out, e.activateErr
}

// isShut reports whether the gate is shut, as far as it can be read.
func (r *Run) isShut() bool {
	_, open, err := r.Machine.Gate.State()

	return err == nil && !open
}

// reportOutcome reports how a run ended.
func (r *Run) reportOutcome(p *boot.Plan, e ending, o outcome) {
	if e.held != "" && !e.releaseFailed {
		r.Report.Held(PlanID(p), e.held)
	}

	for _, d := range o.degradedFirst {
		r.Report.Degrade(d.Code, d.Summary)
	}

	switch {
	case !o.quiet:
		ReportOutcome(r.Report, e.out)
	case e.kind == byHand && o.err == nil:
		reportByHand(r.Report, e.out, o.summary)
	}

	judged := e.kind == activated || e.kind == withoutSite || e.kind == failed

	switch {
	case judged && e.out.Held:
		r.Report.Held(r.findPlanID(e.out.From), e.out.Why)
	case judged && e.out.Code == fault.RollbackFails: // an earlier process of this boot may have reported it as held
		r.Report.Held("", "")
	}

	for _, d := range o.degraded {
		r.Report.Degrade(d.Code, d.Summary)
	}

	if e.held != "" && e.releaseFailed {
		r.Report.Held(PlanID(p), e.held)
	}

	if o.heldBack != "" {
		r.Report.HeldBack(r.unitName(), o.heldBack)
	}

	if e.kind == broken && o.code == fault.NeedsPerson {
		r.Report.Event(
			report.Event{Stage: "recover", State: report.Failed, Summary: o.summary, Message: report.MessageStuck},
		)
	}
}
