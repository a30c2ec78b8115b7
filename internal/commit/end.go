package commit

import (
	"cmp"
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
	withoutSite                   // no site was found
	switchedOff                   // prelet=off
	madeByNewer                   // a newer prelet made the generation in place
	byHand                        // prelet rollback
)

// ending contains all inputs of the decision how a run ends. The caller of end sets the first fields, and end the
// others.
type ending struct {
	kind    endingKind
	changed bool // a generation was committed

	code     fault.Code // of the failure; "" without one
	failure  string     // the failure in one line
	err      error      // an error that is not in the plan's diagnostics
	planCode fault.Code // of the plan's first error; "" without one
	stopped  bool       // by a signal; code is fault.Interrupted then
	lastGood bool       // the node has joined, and the site allows it to continue without the cluster

	to               int    // the pinned generation
	why              string // the reason given with that choice
	generationBefore int    // the generation in place when the run began; 0: there never was one

	// The result of the activation. If the run has activated nothing, carryOut does, and end sets both.
	out         activation.Outcome
	activateErr error

	// What inspect has found after that.

	planHeld      string // why the site's plan is not applied; "" when it is
	releaseFailed bool   // the plan was to be released, and that failed before the commit
	isGateShut    bool   // as far as it could be read
	isGood        bool   // the generation in place was judged good
	isForeign     bool   // the generation in place was made on another machine
	mixed         string // why the files are not those of the generation in place, although the gate stays open
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
	planHeld      string          // why the site's plan is not applied
	gateShut      string          // why the gate is shut; "" when it is open, or when that was reported before
	degradedFirst []report.Reason // deviations from the site, reported before the generation in place
	degraded      []report.Reason // the same, reported after the generation in place
	quiet         bool            // the generation in place is not reported
}

// decideEnding returns how a run ends. It is pure, and the only place of this decision.
func decideEnding(e ending) outcome {
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
	case madeByNewer:
		o = decideMadeByNewer(e)
	case byHand:
		o = decideByHand(e)
	default:
		o = decideActivated(e)
	}

	if e.planHeld != "" {
		addHeld(&o, e)
	}

	return o
}

// addHeld adds to an outcome that the site's plan is held.
func addHeld(o *outcome, e ending) {
	o.planHeld = e.planHeld
	note := report.Reason{Code: string(fault.Held), Summary: e.planHeld}

	if e.releaseFailed {
		o.degraded = append(o.degraded, note)
		return
	}

	o.degradedFirst = append(o.degradedFirst, note)
	if o.code == "" {
		o.summary += "; the site's plan is held"
	}
}

// decideActivated handles a run that reached activation, with a commit or without one.
func decideActivated(e ending) outcome {
	if e.activateErr != nil {
		return decideActivateFailed(e)
	}

	o := outcome{
		code:     e.out.Code,
		gateShut: e.out.HeldBack,
		summary:  e.out.HeldBack,
	}
	if o.summary == "" {
		o.summary = Summarize(e.out, e.changed)
	}

	if e.out.Held {
		o.planHeld = e.out.Why
	}

	return o
}

// decideActivateFailed handles an error of activation.
func decideActivateFailed(e ending) outcome {
	why := e.activateErr.Error()

	o := outcome{
		code:    fault.CodeOf(e.activateErr),
		err:     e.activateErr,
		summary: why,
	}
	if e.out.Held {
		o.planHeld = e.out.Why
	}

	if e.isGateShut {
		o.gateShut = why
	}

	return o
}

// decideFailed handles a failure before the commit, and is the place where a failure of the cluster becomes a success:
// that is fixed on the cluster's side, so a node that has joined and has a good generation starts, and its run does not
// fail. After other failures the generation in place stays too, and the run fails.
func decideFailed(e ending) outcome {
	o := outcome{
		code:     e.code,
		err:      e.err,
		reason:   e.failure,
		summary:  e.failure,
		gateShut: e.out.HeldBack,
	}

	if e.activateErr != nil {
		o.err = errors.Join(e.err, fmt.Errorf("the generation in place could not be kept: %w", e.activateErr))
		o.summary = e.failure + "; " + e.activateErr.Error()
		o.gateShut = ""

		return o
	}

	if e.out.HeldBack != "" || e.out.Generation == 0 {
		return o
	}

	o.summary = e.failure + "; " + describeStay(e, "stays in charge")
	if e.out.From != 0 { // it had no verdict yet, and was unhealthy
		o.summary = e.failure + "; " + Summarize(e.out, true)
	}

	reportedCode := cmp.Or(e.planCode, e.code)
	o.degraded = []report.Reason{{Code: string(reportedCode), Summary: o.summary}}

	mayContinue := e.lastGood && e.isGood
	if mayContinue && isClusterCode(e.code) {
		o.code = e.out.Code
	}

	return o
}

// describeStay returns that the generation in place stays, or which of its files differs and what changes that.
func describeStay(e ending, stays string) string {
	if e.mixed != "" {
		return e.mixed + "; the kubelet keeps running, and the next run that does not fail writes it again"
	}

	return fmt.Sprintf("generation %d %s", max(e.out.Generation, e.generationBefore), stays)
}

// isClusterCode reports whether a failure is caused by the cluster.
func isClusterCode(code fault.Code) bool {
	switch code {
	case fault.ClusterUnreachable,
		fault.ClusterUntrusted,
		fault.ClusterDenied,
		fault.ClusterUnusable:
		return true
	}

	return false
}

// decideBroken handles a failure while the files may be mixed, or while the generations cannot be read: the gate stays
// as it is; at boot that is shut.
func decideBroken(e ending) outcome {
	o := outcome{
		code:    e.code,
		summary: e.failure,
		err:     e.err,
		quiet:   true,
	}
	if e.isGateShut {
		o.gateShut = e.failure
		o.err = errors.Join(e.err, e.activateErr)
	}

	return o
}

// decideWithoutSite handles a node without a site: prelet is not in use, or the generation in place stays.
func decideWithoutSite(e ending) outcome {
	o := decideActivated(e)

	switch {
	case e.generationBefore == 0 && o.code == "":
		o.summary = "no site was found, so prelet is not in use; the kubelet starts as it is"
	case e.generationBefore != 0:
		stays := "the site is gone; " + describeStay(e, "stays")
		o.degradedFirst = []report.Reason{{Code: string(fault.NoSite), Summary: stays}}

		switch {
		case o.code == "" && e.out.HeldBack != "":
			o.code = fault.NoSite
			o.summary = e.out.HeldBack
		case e.mixed != "":
			o.summary = stays
		}
	}

	return o
}

// failQuietly returns the outcome of an error after which the generation in place is not reported.
func failQuietly(err error) outcome {
	return outcome{
		code:    fault.CodeOf(err),
		err:     err,
		summary: err.Error(),
		quiet:   true,
	}
}

// decideSwitchedOff handles prelet=off: the gate opens on the generation in place, judged or not.
func decideSwitchedOff(e ending) outcome {
	if e.activateErr != nil {
		return failQuietly(e.activateErr)
	}

	why := "nothing was planned, changed or judged: prelet=off is on the kernel command line"
	if e.isForeign {
		why += fmt.Sprintf(
			"; generation %d was made on another machine, and the kubelet starts as that one",
			e.out.Generation,
		)
	}

	return outcome{
		summary:  why,
		degraded: []report.Reason{{Code: string(fault.Held), Summary: why}},
	}
}

// decideMadeByNewer handles a generation of a newer prelet: nothing is changed, and the gate opens if its files are in
// place.
func decideMadeByNewer(e ending) outcome {
	if e.activateErr != nil {
		return failQuietly(e.activateErr)
	}
	if e.out.HeldBack != "" {
		why := e.out.HeldBack + "; " + e.failure
		return outcome{code: e.code, err: e.err, summary: why, gateShut: why}
	}

	why := fmt.Sprintf("generation %d stays: %s", e.out.Generation, e.failure)

	return outcome{
		summary:  why,
		degraded: []report.Reason{{Code: string(e.code), Summary: why}},
	}
}

// decideByHand handles a rollback by hand. A failed rollback is not reported.
func decideByHand(e ending) outcome {
	if e.activateErr != nil {
		return failQuietly(e.activateErr)
	}

	held := fmt.Sprintf(
		"generation %d is pinned (%s); to apply the site again: prelet rollback --release", e.to, e.why)
	const format = "generation %d is in place by hand; it has the contents of generation %d"
	chosen := fmt.Sprintf(format, e.out.Generation, e.to)
	o := outcome{
		code:          e.out.Code,
		quiet:         true,
		gateShut:      e.out.HeldBack,
		summary:       chosen,
		planHeld:      held,
		degradedFirst: []report.Reason{{Code: string(fault.Held), Summary: held}},
	}

	if e.out.Code != "" {
		o.summary += ": " + e.out.Why
	}

	if e.out.Verdict == activation.Unknown {
		unjudged := fmt.Sprintf(
			"whether the kubelet is healthy with generation %d is not known; prelet verify checks it",
			e.out.Generation,
		)
		o.degraded = []report.Reason{{Code: string(fault.Unjudged), Summary: unjudged}}
	}

	return o
}

// end ends a run: it keeps the generation in place or shuts the gate, looks at the node after that, decides how the run
// has ended, and reports it.
func (r *Run) end(ctx context.Context, p *boot.Plan, h hold, e ending) Result {
	e.out, e.activateErr = r.carryOut(ctx, e)
	e = r.inspect(ctx, p, h, e)
	o := decideEnding(e)
	r.reportOutcome(p, e, o)

	if e.kind == withoutSite && e.generationBefore == 0 {
		p = nil // a missing site is not an error of the plan
	}

	return Result{
		Plan:    p,
		Outcome: e.out,
		Changed: e.changed,
		Held:    o.planHeld,
		Code:    o.code,
		Reason:  o.reason,
		Summary: o.summary,
		Err:     o.err,
	}
}

// inspect returns an ending with the state of the node after carryOut: the gate, the generation in place, and whether
// the plan is held.
func (r *Run) inspect(ctx context.Context, p *boot.Plan, h hold, e ending) ending {
	e.isGateShut = r.isGateShut()
	e.isForeign = r.isForeign()
	if (e.kind == failed || e.kind == withoutSite) && e.activateErr == nil && !e.isGateShut && e.out.HeldBack == "" {
		e.mixed = r.Machine.WhyMixed(context.WithoutCancel(ctx))
	}

	hasFailed := e.err != nil || e.activateErr != nil

	switch {
	case h.why == "":
	case !h.release:
		e.planHeld = h.why
	case !e.changed && hasFailed:
		e.planHeld = r.whyHeld(p)
		e.releaseFailed = true
	}

	if cur := readCurrent(r.Store); cur != nil {
		e.isGood = cur.Status == generation.StatusGood
		r.noteAdopted(cur)
	}

	return e
}

// noteAdopted notes that the files of the generation in place were adopted.
func (r *Run) noteAdopted(cur *generation.Info) {
	if !cur.Adopted {
		return
	}

	note := fmt.Sprintf("generation %d has the files as they were found", cur.Gen)
	if r.Store.KnowsBefore() != nil {
		note += "; what they were before prelet is not known"
	}

	r.Report.Note(string(fault.Adopted), note)
}

// endFailed ends a run before its commit. err is an error that is not in p's diagnostics.
func (r *Run) endFailed(
	ctx context.Context,
	p *boot.Plan,
	h hold,
	code fault.Code,
	err error,
) Result {
	e := ending{
		kind:    failed,
		code:    code,
		err:     err,
		failure: describeFailure(p, err),
	}
	if p != nil {
		e.planCode = origin.Code(p.Diagnostics)
		e.lastGood = p.Kubelet.Joined && p.OnCluster == "last-good"
	}

	if ctx.Err() != nil {
		e.stopped = true
		e.code = fault.Interrupted
		e.failure = "stopped before anything was changed: " + context.Cause(ctx).Error()
	}

	return r.end(ctx, p, h, e)
}

// endError is endFailed with the code of err.
func (r *Run) endError(ctx context.Context, p *boot.Plan, h hold, err error) Result {
	return r.endFailed(ctx, p, h, fault.CodeOf(err), err)
}

// EndNewer ends a run, a verification or a rollback on a node whose generation in place a newer prelet made: it opens
// the gate and writes nothing else. isNewer is false if none did, and then nothing has happened.
func (r *Run) EndNewer(ctx context.Context) (res Result, isNewer bool) {
	err := r.Machine.Newer()
	if err == nil {
		return Result{}, false
	}
	if unfinished := CheckFinished(r.Store); unfinished != nil {
		return r.endBroken(ctx, unfinished), true
	}

	kind := madeByNewer
	if r.Off {
		kind = switchedOff
	}

	return r.end(ctx, nil, hold{}, ending{
		kind:    kind,
		code:    fault.NewerPrelet,
		failure: err.Error(),
		err:     err,
	}), true
}

// CheckFinished returns the fault for a node on which a newer prelet was interrupted while it published files.
func CheckFinished(s *generation.Store) error {
	j, err := s.Journal()
	if err != nil || !j.IsUnfinished() {
		return err
	}

	return generation.Stuck(
		fmt.Sprintf("generation %d", j.Gen),
		"a newer prelet was interrupted while it published its files",
		"install that version again: its next run finishes them",
		generation.ErrNewer,
	)
}

// KeepWithoutRun ends a boot in which no run could begin: the generation in place stays if possible.
func (r *Run) KeepWithoutRun(ctx context.Context, err error) Result {
	if res, isNewer := r.EndNewer(ctx); isNewer {
		return res
	}
	if _, broken := r.Machine.Recover(ctx); broken != nil {
		return r.endBroken(ctx, broken)
	}

	return r.endError(ctx, nil, hold{}, err)
}

func (r *Run) endBroken(ctx context.Context, err error) Result {
	e := ending{
		kind:    broken,
		code:    fault.CodeOf(err),
		failure: err.Error(),
		err:     err,
	}

	return r.end(ctx, nil, hold{}, e)
}

func (r *Run) endActivated(
	ctx context.Context,
	p *boot.Plan,
	h hold,
	out activation.Outcome,
	err error,
) Result {
	return r.end(ctx, p, h, ending{
		kind:        activated,
		out:         out,
		activateErr: err,
	})
}

// endCommitted ends a run that committed a generation.
func (r *Run) endCommitted(
	ctx context.Context,
	p *boot.Plan,
	h hold,
	out activation.Outcome,
	err error,
) Result {
	return r.end(ctx, p, h, ending{
		kind:        activated,
		out:         out,
		activateErr: err,
		changed:     true,
	})
}

// carryOut keeps the generation in place if possible, or shuts the gate with the reason.
func (r *Run) carryOut(ctx context.Context, e ending) (activation.Outcome, error) {
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

		return activation.Outcome{HeldBack: e.failure}, err
	case withoutSite:
		return r.Machine.KeepWithoutSite(ctx)
	case switchedOff:
		return r.Machine.SwitchOff(ctx)
	case madeByNewer:
		return r.Machine.KeepNewer(ctx)
	}

	return e.out, e.activateErr
}

// isGateShut reports whether the gate is shut, as far as it can be read.
func (r *Run) isGateShut() bool {
	_, open, err := r.Machine.Gate.State()

	return err == nil && !open
}

// reportOutcome reports how a run ended.
func (r *Run) reportOutcome(p *boot.Plan, e ending, o outcome) {
	if e.planHeld != "" && !e.releaseFailed {
		r.Report.Held(PlanID(p), e.planHeld)
	}

	r.degradeAll(o.degradedFirst)

	switch {
	case !o.quiet:
		ReportOutcome(r.Report, e.out)
	case e.kind == byHand && o.err == nil:
		reportByHand(r.Report, e.out, o.summary)
	}

	r.reportHeldByVerdict(e)
	r.degradeAll(o.degraded)

	if e.planHeld != "" && e.releaseFailed {
		r.Report.Held(PlanID(p), e.planHeld)
	}

	if o.gateShut != "" {
		r.Report.HeldBack(r.unitName(), o.gateShut)
	}

	if e.kind == broken && o.code == fault.NeedsPerson {
		r.Report.Event(report.Event{
			Stage:   "recover",
			State:   report.Failed,
			Summary: o.summary,
			Message: report.MessageStuck,
		})
	}
}

// degradeAll reports deviations from the site.
func (r *Run) degradeAll(reasons []report.Reason) {
	for _, d := range reasons {
		r.Report.Degrade(d.Code, d.Summary)
	}
}

// reportHeldByVerdict reports whether the verdict of this run holds a plan.
func (r *Run) reportHeldByVerdict(e ending) {
	switch e.kind {
	case activated, withoutSite, failed:
	default:
		return
	}

	switch {
	case e.out.Held:
		r.Report.Held(r.findPlanID(e.out.From), e.out.Why)
	case e.out.Code == fault.RollbackFails: // an earlier process of this boot may have reported it as held
		r.Report.Held("", "")
	}
}
