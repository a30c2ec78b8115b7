package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// ending is how the machine was entered last and what came of it: all inputs of the decision how an entry ends. decide
// completes its Result.
type ending struct {
	// Result has the plan, the outcome, and whether a generation was committed. After a failure before the commit also
	// its code, its reason in one line, and an error that is not in the plan's diagnostics.
	Result
	on       activation.Trigger // OnChange is also an entry that was chosen because of a plan
	isBroken bool               // it was not entered: the files may be mixed, or the generations cannot be read
	isNewer  bool               // of OnOff: because a newer prelet made the generation in place
	attempt  attempt            // the zero value without a plan
	enterErr error              // of the machine

	planCode         fault.Code // of the plan's first error; "" without one
	lastGood         bool       // the node has joined, and the site allows it to continue without the cluster
	to               int        // of OnRollback: the pinned generation
	generationBefore int        // of OnNoSite: the generation in place when the run began; 0: there never was one

	nodeAfter
	decision
}

// nodeAfter is the state of the node after the entry.
type nodeAfter struct {
	planHeld   string // why the site's plan is not applied; "" when it is
	isGateShut bool   // as far as it could be read
	isGood     bool   // the generation in place was judged good
	isForeign  bool   // the generation in place was made on another machine
	asFound    string // why the kubelet starts without a generation; "" if it does not
	mixed      string // why the files are not those of the generation in place, although the gate stays open
	others     string // which files that do not decide about the kubelet differ from it, and how; "" for none

	isKubeletHeld bool // holds of the site keep the kubelet from starting
}

// decision is the result of ending.decide, in addition to Result.
type decision struct {
	gateShut string         // why the gate is shut; "" when it is open, or when that was reported before
	degraded []fault.Reason // deviations from the site
	isQuiet  bool           // the generation in place is not reported
}

// decide decides how an entry ends. It is pure, and the only place of this decision.
func (e *ending) decide() {
	switch {
	case e.isBroken:
		e.decideBroken()
	case e.enterErr != nil && (e.on == activation.OnOff || e.on == activation.OnRollback):
		e.fail()
		e.isQuiet = true
	case e.isNewer:
		e.decideNewer()
	case e.on == activation.OnFailed:
		e.decideFailed()
	case e.on == activation.OnNoSite:
		e.decideWithoutSite()
	case e.on == activation.OnOff:
		e.decideSwitchedOff()
	case e.on == activation.OnRollback:
		e.decideByHand()
	default:
		e.decideActivated()
	}

	isEnd := e.Code == "" || e.Code == fault.NoSite || e.Code == fault.NewerPrelet
	if isEnd && e.isKubeletHeld && e.Outcome.HeldBack != "" {
		e.Code = fault.KubeletHeld // which is tried again: else nothing would end the hold
	}

	if e.planHeld == "" {
		return
	}

	e.Held = e.planHeld
	if e.attempt.isWaiting {
		return
	}
	e.degrade(fault.Held, e.planHeld)
	if e.Code == "" {
		e.Summary += report.PlanHeld
	}
}

func (e *ending) degrade(code fault.Code, why string) {
	e.degraded = append(e.degraded, fault.Reason{Code: code, Summary: why})
}

// fail ends with the error of the machine.
func (e *ending) fail() {
	e.Code = fault.CodeOf(e.enterErr)
	e.Err = e.enterErr
	e.Summary = e.enterErr.Error()
}

// decideActivated handles a run that reached activation, with a commit or without one.
func (e *ending) decideActivated() {
	if e.Outcome.Held {
		e.Held = e.Outcome.Why
	}

	if e.enterErr != nil {
		e.fail()
		if e.isGateShut {
			e.gateShut = e.Summary
		}

		return
	}

	e.Code = e.Outcome.Code
	e.gateShut = e.Outcome.HeldBack
	e.Summary = cmp.Or(e.Outcome.HeldBack, Summarize(e.Outcome, e.Changed)) + e.describeOverwritten()
}

// decideFailed handles a failure before the commit, and is the place where a failure of the cluster becomes a success:
// that is fixed on the cluster's side, so a node that has joined and has a good generation starts, and its run does not
// fail. After other failures the generation in place stays too, and the run fails.
func (e *ending) decideFailed() {
	e.Summary = e.Reason
	if e.enterErr != nil {
		e.Err = errors.Join(e.Err, fmt.Errorf("the generation in place could not be kept: %w", e.enterErr))
		e.Summary += "; " + e.enterErr.Error()

		return
	}

	e.gateShut = e.Outcome.HeldBack
	switch {
	case e.gateShut != "" && !strings.HasPrefix(e.gateShut, e.Reason): // the failure alone did not shut it
		e.Summary = e.gateShut
		return
	case e.gateShut != "":
		return
	case e.asFound != "":
		e.Summary += "; " + e.asFound
		e.degrade(cmp.Or(e.planCode, e.Code), e.Summary)

		return
	case e.Outcome.Generation == 0:
		return
	}

	if e.Outcome.From != 0 { // it had no verdict yet, and was unhealthy
		e.Summary += "; " + Summarize(e.Outcome, true)
	} else {
		e.Summary += "; " + e.describeStay("stays in charge")
	}

	e.degrade(cmp.Or(e.planCode, e.Code), e.Summary)
	if e.lastGood && e.isGood && isClusterCode(e.Code) {
		e.Code = e.Outcome.Code
	}
}

// describeStay returns that the generation in place stays, or which of its files differs and what changes that.
func (e *ending) describeStay(stays string) string {
	if e.mixed != "" {
		return e.mixed + "; the kubelet keeps running, and the next run that does not fail writes it again"
	}

	stays = fmt.Sprintf("generation %d %s", max(e.Outcome.Generation, e.generationBefore), stays)
	if e.others != "" {
		stays += "; " + e.others
	}

	return stays + e.describeOverwritten()
}

// describeOthers returns which files of the generation in place that do not decide about the kubelet differ, and how;
// "" for none.
func (r *Run) describeOthers() string {
	cur := readCurrent(r.Store)
	if cur == nil {
		return ""
	}
	spec, err := r.Machine.SpecOf(cur.Gen)
	if err != nil {
		return ""
	}

	return r.Machine.DescribeOthers(spec)
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
func (e *ending) decideBroken() {
	e.Summary = e.Reason
	e.isQuiet = true
	if e.isGateShut {
		e.gateShut = e.Reason
		e.Err = errors.Join(e.Err, e.enterErr)
	}
}

// decideWithoutSite handles a node without a site: prelet is not in use, or the generation in place stays.
func (e *ending) decideWithoutSite() {
	e.decideActivated()

	if e.generationBefore == 0 {
		switch {
		case e.Code == "" && e.Outcome.HeldBack != "":
			e.Code = fault.NoSite
		case e.Code == "":
			e.Summary = "no site was found, so prelet is not in use; the kubelet starts as it is"
		}

		return
	}

	stays := "the site is gone; " + e.describeStay("stays")
	e.degrade(fault.NoSite, stays)

	switch {
	case e.Code == "" && e.Outcome.HeldBack != "":
		e.Code = fault.NoSite
	case e.mixed != "":
		e.Summary = stays
	}
}

// decideSwitchedOff handles prelet=off: the gate opens on the generation in place, judged or not.
func (e *ending) decideSwitchedOff() {
	e.Summary = "nothing was planned, changed or judged: prelet=off is on the kernel command line"
	if e.isForeign {
		e.Summary += fmt.Sprintf(
			"; generation %d was made on another machine, and the kubelet starts as that one; %s",
			e.Outcome.Generation,
			machineid.HowToKeep,
		)
	}
	e.degrade(fault.Held, e.Summary)
}

// decideNewer handles a generation of a newer prelet: nothing is changed, and the gate opens if its files are in place.
func (e *ending) decideNewer() {
	if e.Outcome.HeldBack != "" {
		e.Summary = e.Outcome.HeldBack + "; " + e.Reason
		e.gateShut = e.Summary
		return
	}

	e.Summary = fmt.Sprintf("generation %d stays: %s", e.Outcome.Generation, e.Reason)
	e.degrade(e.Code, e.Summary)
	e.Code = ""
	e.Err = nil
}

// decideByHand handles a rollback by hand.
func (e *ending) decideByHand() {
	const format = "generation %d is in place by hand; it has the contents of generation %d"
	e.Summary = fmt.Sprintf(format, e.Outcome.Generation, e.to)
	if e.Outcome.Code != "" {
		e.Summary += ": " + e.Outcome.Why
	}

	if e.Outcome.HeldBack != "" {
		e.Summary += ". " + e.Outcome.HeldBack
	}

	e.Code = e.Outcome.Code
	e.gateShut = e.Outcome.HeldBack
	e.Held = fmt.Sprintf(
		"generation %d is pinned (%s); to apply the site again: prelet rollback --release", e.to, generation.ByHand)
	e.degrade(fault.Held, e.Held)
}

// end ends an entry: it looks at the node, decides how the entry has ended, and reports it.
func (r *Run) end(ctx context.Context, e ending) {
	r.inspect(ctx, &e)
	e.decide()
	r.reportEnding(e)
	r.degradeUnjudged(ctx, e.Outcome)
	r.Result = e.Result
}

// degradeUnjudged degrades a run whose generation awaits a verdict that nothing gives: the unit that judges is masked.
func (r *Run) degradeUnjudged(ctx context.Context, out activation.Outcome) {
	if out.Verdict != activation.Pending {
		return
	}

	u, err := r.Machine.Node.Look(ctx, activation.VerifyUnit)
	if err == nil && u.Load == "masked" {
		const format = "%[1]s is masked, so nothing judges generation %[2]d, or rolls it back: systemctl unmask %[1]s"
		r.Report.Degrade(fault.Unjudged, fmt.Sprintf(format, activation.VerifyUnit, out.Generation))
	}
}

// inspect reads the state of the node after the machine was entered: the gate, the generation in place, and whether the
// plan is held.
func (r *Run) inspect(ctx context.Context, e *ending) {
	e.isGateShut = r.Machine.Gate.IsShut()
	e.isForeign = r.isForeign()
	e.isKubeletHeld = r.held != nil
	stays := e.on == activation.OnFailed || e.on == activation.OnNoSite
	if stays && e.enterErr == nil && !e.isGateShut && e.Outcome.HeldBack == "" {
		e.mixed = r.Machine.WhyMixed(context.WithoutCancel(ctx))
		e.others = r.describeOthers()
		if r.Machine.IsAsFound() {
			e.asFound = fmt.Sprintf(
				"%s has no generation, and this node has joined: the kubelet starts on the files as they are; "+
					"when that is fixed, prelet run makes a generation of them", r.Machine.StateDir,
			)
		}
	}

	hasFailed := e.Err != nil || e.enterErr != nil

	switch {
	case !e.attempt.releases:
		e.planHeld = e.attempt.held
	case !e.Changed && hasFailed: // it was not released
		e.planHeld = WhyHeld(r.Store, e.Plan)
	}

	if cur := readCurrent(r.Store); cur != nil {
		e.isGood = cur.Status == generation.StatusGood
		if e.Changed {
			e.Entries = generation.ListChanged(cur.Entries)
		}
	}
}

// endFailed ends a run before its commit. err is an error that is not in the plan's diagnostics.
func (r *Run) endFailed(ctx context.Context, a attempt, code fault.Code, err error) {
	p := a.options.Plan
	e := ending{
		on:      activation.OnFailed,
		attempt: a,
		Result:  Result{Plan: p, Code: code, Err: err, Reason: describeFailure(p, err)},
	}
	if p != nil {
		e.planCode = origin.Code(p.Diagnostics)
		e.lastGood = p.Kubelet.Joined && p.OnCluster == "last-good"
	}

	if ctx.Err() != nil {
		e.Code = fault.Interrupted
		e.Reason = "stopped before anything was changed: " + context.Cause(ctx).Error()

		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
		defer cancel()
	}

	held := r.whyHeld(ctx)
	if held != "" && code != fault.KubeletHeld {
		so := "this run does not know whether that is over"
		if r.isHoldPlanned {
			so = "and this run failed"
		}
		held = held + "; " + so + ": " + e.Reason
		e.Reason = held
		if e.Code != fault.Interrupted {
			e.Code = fault.KubeletHeld // which is tried again, although the site may need a fix
		}
	}
	if a.Run == nil {
		e.attempt.Run = r
	}
	// A file that changes at this moment is not put back: the run is repeated.
	isChanging := errors.Is(err, generation.ErrChanged)
	if held == "" && e.Code != fault.KubeletHeld && e.Code != fault.Interrupted && !isChanging {
		e.Outcome, e.Changed, e.enterErr = e.attempt.restoreAfterFailure(ctx)
	}
	if !e.Changed {
		e.Outcome, e.enterErr = r.enter(ctx, activation.Entry{On: e.on, Failure: e.Reason, Held: held})
	}
	r.end(ctx, e)
}

// EndNewer ends a run, a verification or a rollback on a node whose generation in place a newer prelet made: it opens
// the gate and writes nothing else. It returns false if none did, and then nothing has happened.
func (r *Run) EndNewer(ctx context.Context) (isNewer bool) {
	err := activation.Newer(r.Store)
	if err == nil {
		return false
	}

	unfinished := r.Store.CheckFinished()
	switch {
	case unfinished != nil:
		r.endBroken(ctx, unfinished)
	case r.Off:
		r.endOff(ctx)
	default:
		e := ending{
			on:      activation.OnOff,
			isNewer: true,
			Result:  Result{Code: fault.NewerPrelet, Reason: err.Error(), Err: err},
		}
		e.Outcome, e.enterErr = r.Machine.KeepNewer(ctx, r.whyHeld(ctx))
		r.end(ctx, e)
	}

	return true
}

// endOff ends a run with prelet=off.
func (r *Run) endOff(ctx context.Context) {
	e := ending{on: activation.OnOff}
	e.Outcome, e.enterErr = r.Machine.Enter(ctx, activation.Entry{On: e.on})
	r.end(ctx, e)
}

// KeepWithoutRun ends a boot in which no run could begin: the generation in place stays if possible.
func (r *Run) KeepWithoutRun(ctx context.Context, err error) {
	if r.EndNewer(ctx) {
		return
	}
	if _, broken := r.Machine.Enter(ctx, activation.Entry{On: activation.OnFinish}); broken != nil {
		r.endBroken(ctx, broken)
		return
	}

	r.endFailed(ctx, attempt{}, fault.CodeOf(err), err)
}

func (r *Run) endBroken(ctx context.Context, err error) {
	e := ending{
		isBroken: true,
		Result:   Result{Code: fault.CodeOf(err), Reason: err.Error(), Err: err},
	}
	shut, failed := r.Machine.KeepShut(e.Reason)
	if shut {
		e.Outcome.HeldBack = e.Reason
		e.enterErr = failed
	}
	r.end(ctx, e)
}

func (r *Run) reportEnding(e ending) {
	if !e.isQuiet {
		ReportOutcome(r.Report, e.Outcome, e.Summary)
	}

	switch {
	case e.on == activation.OnRollback:
	case e.Outcome.Held:
		r.Report.Held(r.findPlanID(e.Outcome.From), e.Outcome.Why)
	case e.Outcome.Code == fault.RollbackFails: // an earlier process of this boot may have reported it as held
		r.Report.Held("", "")
	}

	for _, d := range e.degraded {
		r.Report.Degrade(d.Code, d.Summary)
	}

	switch {
	case e.isQuiet:
	case e.Outcome.Code == fault.RolledBack || e.on == activation.OnRollback:
		r.Report.SiteInPlace(r.findSite(e.Outcome.Generation))
	case e.on == activation.OnChange && e.planHeld == "":
		r.Report.SiteInPlace(e.attempt.options.Site)
	}

	switch {
	case e.attempt.isWaiting:
		r.Report.Note(fault.SiteDelivery, e.planHeld)
	case e.planHeld != "":
		r.Report.Held(PlanID(e.Plan), e.planHeld)
	}

	if e.gateShut != "" {
		r.Report.HeldBack(r.UnitName(), e.gateShut)
	}

	if e.isBroken && e.Code == fault.NeedsPerson {
		r.Report.Event(report.Event{
			Stage:   "recover",
			State:   report.Failed,
			Summary: e.Summary,
			Message: report.MessageStuck,
		})
	}
}
