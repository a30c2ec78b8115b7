package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report"
)

// Run is one run on a node, from the recovery of an interrupted change to the verdict:
//
//	a newer prelet made what is in place ────▶ open the gate
//	recover ─▶ no site, never a generation ─▶ open the gate
//	   │       plan ── fails ─────────────────▶ keep the generation in place, if it is complete and good
//	   │        ├─ held ──────────────────────▶ restore the files of the generation in place, resume
//	   │        ├─ nothing to change ─────────▶ resume
//	   └────────┴─ preflight, begin, apply ───▶ good, pending, or rolled back
type Run struct {
	Store   *generation.Store // locked
	Machine *activation.Machine
	Report  *report.Reporter

	Plan    func(context.Context) *boot.Plan // evaluates the site again at each call
	Options func(*boot.Plan) Options

	Retry bool // a held plan is released and tried again
	Off   bool // prelet=off: only the gate opens, on the generation in place

	mounts        []activation.Mount // at or above managed files
	mountsUnknown bool               // systemd did not say
}

// Result is the result of a run.
type Result struct {
	Plan    *boot.Plan // the last one; nil when there was none
	Outcome activation.Outcome
	Changed bool       // a generation was committed
	Held    string     // why the site's plan is not applied; "" when it is
	Code    fault.Code // "" when nothing failed
	Reason  string     // what failed before the commit: the first of Plan's diagnostics, or Err
	Summary string     // one line
	Err     error      // an error that is not in Plan's diagnostics
}

// maxReplans is how often a plan is made again because a managed file changed meanwhile.
const maxReplans = 2

// keepTimeout limits the work after SIGTERM.
const keepTimeout = 10 * time.Second

// Do runs. The lock is held before and after.
func (r *Run) Do(ctx context.Context) Result {
	if res, isNewer := r.EndNewer(ctx); isNewer {
		return res
	}

	r.setAside()

	_, err := r.Machine.Recover(ctx)
	if err != nil && !generation.IsOutdated(err) {
		return r.endBroken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
	}

	if err := r.Store.ReadOnly(); err != nil {
		r.Report.Degrade(string(fault.CannotWrite), "no change and no verdict can be stored: "+err.Error())
	}

	if cur := readCurrent(r.Store); cur != nil {
		r.Report.Generation(cur.Gen)
	}

	if r.Off {
		return r.end(ctx, nil, hold{}, ending{kind: switchedOff})
	}

	if err := r.Store.Check(); err != nil { // before a plan is based on it
		return r.endBroken(ctx, err)
	}

	for again := 0; ; again++ {
		res, retry := r.planAndApply(ctx)

		switch {
		case !retry:
			return r.collect(res)
		case again == maxReplans:
			err := fmt.Errorf("%w (planned again %d times)", res.Err, maxReplans)
			return r.endFailed(ctx, res.Plan, hold{}, fault.CannotWrite, err)
		}

		r.notify("commit", "planned again: "+res.Err.Error())
	}
}

// setAside moves damaged files of the generations aside, so that the run goes on without them. What cannot be moved is
// an error of the steps that need it.
func (r *Run) setAside() {
	moved, err := r.Store.SetAside()
	for _, why := range moved {
		r.Report.Degrade(string(fault.Adopted), why+"; the run goes on as if it was lost")
	}
	if err != nil {
		r.notify("recover", err.Error())
	}
}

// planAndApply plans and applies. again reports that a managed file changed after the plan was made.
func (r *Run) planAndApply(ctx context.Context) (res Result, again bool) {
	p := r.planMounted(ctx)
	r.degrade(p)

	if hasNoSite(p) {
		return r.endWithoutSite(ctx, p), false
	}

	if !p.Complete {
		return r.endFailed(ctx, p, hold{}, p.Code(), nil), false
	}

	h := hold{why: r.whyHeld(p)}

	switch {
	case h.why == "":
	case r.isForeign(): // the plan was held on the machine that this one is a copy of
		h.why = h.why + " (on another machine)"
		h.release = true
	case r.hasLostGenerations() && !p.Kubelet.Joined: // nothing is in place that could stay instead
		h.why = h.why + " (and its generations are lost)"
		h.release = true
	case !r.Retry:
		return r.restoreInPlace(ctx, p, h), false
	default:
		h.release = true
	}

	return r.apply(ctx, p, h)
}

func (r *Run) endWithoutSite(ctx context.Context, p *boot.Plan) Result {
	e := ending{kind: withoutSite}

	cur, err := r.Store.Current()
	if err != nil {
		return r.endBroken(ctx, err)
	}

	if cur != nil {
		e.generationBefore = cur.Gen
	}

	return r.end(ctx, p, hold{}, e)
}

// apply applies the plan p.
func (r *Run) apply(ctx context.Context, p *boot.Plan, h hold) (res Result, again bool) {
	if p.Previous != nil {
		r.Report.Note(string(fault.Identity), p.Previous.Sentence())
	}

	r.keepOutdated(ctx, p)
	proposal, act, err := BuildProposal(r.Options(p))
	if err == nil {
		err = r.checkUnit(p, act.Unit)
	}
	if err == nil {
		err = r.checkPodState(ctx, p, act.Unit)
	}

	if err != nil {
		return r.endError(ctx, p, h, err), false
	}

	return r.commit(ctx, p, proposal, act, h)
}

// reportReleased reports that held plans were released.
func (r *Run) reportReleased(h hold) {
	if h.release {
		r.notify("commit", "released and tried again: "+h.why)
	}
}

// reportStates reports the removed states of the kubelet's managers, with the reason: a pod may get other CPUs or
// another NUMA node than before.
func (r *Run) reportStates(p *boot.Plan) {
	for _, c := range p.Changes {
		if c.File.Purpose == "state" && c.Action == "delete" {
			r.notify("commit", fmt.Sprintf("%s is removed, and the kubelet makes a new one: %s", c.File.Path, c.Why))
		}
	}
}

// checkUnit refuses to act on another unit than before because no restart stage names it any more: a layer that is
// missing must not start a second kubelet.
func (r *Run) checkUnit(p *boot.Plan, unit string) error {
	was := r.unitName()
	if p.Node.Activation != nil || was == unit {
		return nil
	}

	return &fault.Fault{
		Code:    fault.RemovalRefused,
		Summary: "The kubelet's unit would be another one",
		Why: fmt.Sprintf(
			"the generation in place is that of %s, and without a restart stage the unit is %s",
			was,
			unit,
		),
		Next: fmt.Sprintf("put stage \"restart\" back, with unit = %q; or write the new unit", was),
	}
}

// keepOutdated keeps the states of the kubelet's managers that do not fit this boot's machine while pods may hold what
// they list: the kubelet that runs needs them, and only its next start fails. A boot, before the kubelet, removes them.
func (r *Run) keepOutdated(ctx context.Context, p *boot.Plan) {
	isOutdated := func(c boot.Change) bool { return c.Outdated }
	i := slices.IndexFunc(p.Changes, isOutdated)
	if i < 0 {
		return
	}

	unit := activation.DefaultUnit
	if p.Node.Activation != nil {
		unit = p.Node.Activation.Unit
	}
	c := p.Changes[i]
	u, err := r.Machine.Units.Look(ctx, unit)
	if err == nil && activation.CheckPodState(u, c.File.Path, c.Why, "") != nil {
		r.Report.Degrade(string(fault.KubeletMachine), fmt.Sprintf(
			"%s stays while pods may use the CPUs or memory in it, and the kubelet's next start fails: %s; "+
				"drain the node and reboot it",
			c.File.Path,
			c.Why,
		))
		p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), isOutdated)
	}
}

// checkPodState refuses to remove a state file of the kubelet's managers while pods may use the CPUs or memory that
// it lists.
func (r *Run) checkPodState(ctx context.Context, p *boot.Plan, unit string) error {
	i := slices.IndexFunc(p.Changes, func(c boot.Change) bool {
		return c.File.Purpose == "state" && c.Action == "delete"
	})
	if i < 0 {
		return nil
	}

	u, err := r.Machine.Units.Look(ctx, unit)
	if err != nil { // Preflight reports that systemd does not answer
		return nil
	}

	return activation.CheckPodState(u, p.Changes[i].File.Path, p.Changes[i].Why,
		fmt.Sprintf(
			"drain the node and reboot it: the boot applies the site; "+
				"or drain it, systemctl stop %[1]s, prelet run, systemctl start %[1]s",
			unit,
		))
}

// degrade reports deviations from the site, files of the system that it writes, and that the host has another name than
// its node. For cached data of an earlier boot the reason is in the diagnostic.
func (r *Run) degrade(p *boot.Plan) {
	stale := map[string]bool{}

	for _, d := range p.Diagnostics {
		code := origin.CodeOf(d)
		if origin.IsNote(d) && (code == fault.SystemFile || code == fault.Identity) {
			r.Report.Note(string(code), d.Summary+": "+d.Detail)
		}
		if code == fault.Stale {
			why, _, _ := strings.Cut(d.Detail, ". ")
			stale[d.Summary] = true
			r.Report.Degrade(string(fault.Stale), d.Summary+": "+why)
		}
	}

	for _, d := range p.Degraded {
		if d.Code != fault.Stale || !stale[d.Summary] {
			r.Report.Degrade(string(d.Code), d.Summary)
		}
	}
}

// isForeign reports whether the generation in place was made on another machine.
func (r *Run) isForeign() bool {
	cur := readCurrent(r.Store)
	return cur != nil && r.whyForeign(cur.Gen) != ""
}

// readCurrent returns the generation in place; nil if none is, or if it cannot be read.
func readCurrent(s *generation.Store) *generation.Info {
	cur, err := s.Current()
	if err != nil {
		return nil
	}

	return cur
}

// isDamaged reports whether the current generation is damaged, apart from its files.
func isDamaged(s *generation.Store) bool {
	cur := readCurrent(s)

	return cur != nil && fault.CodeOf(s.Intact(cur.Gen)) == fault.NeedsPerson
}

// hasLostVerdict reports whether the generation in place was never judged and no journal awaits its verdict, because
// that was lost. Its files are adopted again, so that they are judged. A generation that a rollback made, and that
// was judged unhealthy, has a reason.
func (r *Run) hasLostVerdict() bool {
	cur := readCurrent(r.Store)
	if cur == nil || !awaitsVerdict(cur) {
		return false
	}

	j, err := r.Store.Journal()

	return err == nil && (j == nil || j.Gen != cur.Gen)
}

// awaitsVerdict reports whether a generation was never judged.
func awaitsVerdict(cur *generation.Info) bool {
	switch cur.Status {
	case generation.StatusPending:
		return true
	case generation.StatusRestored:
		return cur.Why == ""
	}

	return false
}

// hasLostGenerations reports whether the store is empty although a plan is held, which needs a generation.
func (r *Run) hasLostGenerations() bool {
	cur, err := r.Store.Current()

	return err == nil && cur == nil
}

// commit puts a proposal in place if it differs, and activates it.
func (r *Run) commit(
	ctx context.Context, p *boot.Plan, proposal generation.Proposal, act activation.Plan, h hold,
) (res Result, again bool) {
	if gen, isOpen, err := r.Machine.Gate.State(); err == nil && isOpen {
		proposal.Above = max(0, gen) // also when the state folder was lost
	}

	r.recordMounts(&proposal)

	c, err := r.Store.Compare(proposal)
	if err != nil {
		return r.endUnlessChanged(ctx, p, h, err)
	}

	r.noteComparison(c)

	if !c.Changed {
		return r.applyUnchanged(ctx, p, proposal, act, h, r.needsAdoption(c))
	}

	r.noteCovered(ctx)

	// Preflight comes before staging: if the kubelet would not wait for the gate, no file may be written.
	names := append([]string{act.Unit}, p.Node.Aliases...)
	unitFiles := r.readUnitFiles(names, proposal, c.Entries)
	if _, err := r.Machine.Preflight(ctx, act.Unit, unitFiles); err != nil {
		return r.endError(ctx, p, h, err), false
	}

	proposal.Release = h.release

	txn, err := r.Store.Begin(proposal)
	if err != nil {
		return r.endUnlessChanged(ctx, p, h, err)
	}

	change := activation.Change{
		Txn: reportingTxn{txn, r.Report, func() {
			r.reportReleased(h)
			r.reportStates(p)
		}},
		Plan:      act,
		Reload:    changesUnitFiles(txn.Entries()),
		UnitFiles: r.readUnitFiles(names, proposal, txn.Entries()),
	}

	out, committed, err := r.Machine.Apply(ctx, change)
	if !committed {
		return r.endUnlessChanged(ctx, p, h, err)
	}

	return r.endCommitted(ctx, p, h, out, err), false
}

// readUnitFiles returns the files of a unit with some names that a commit changes, with their content; nil for one that
// is removed.
func (r *Run) readUnitFiles(names []string, p generation.Proposal, entries []generation.Entry) map[string][]byte {
	content := map[string][]byte{}
	for _, e := range entries {
		if e.Dropped && e.New.Kind == generation.File { // a lost one is like a removed one
			content[e.Path], _ = r.Store.Content(e.New.SHA256)
		}
	}
	for _, t := range p.Targets {
		if t.Kind == generation.File {
			content[t.Path] = append([]byte{}, t.Content...) // an empty file is not a removed one
		}
	}

	out := map[string][]byte{}
	for _, file := range activation.ListUnitFiles(names, entries) {
		out[file] = content[file]
	}

	return out
}

// endUnlessChanged ends a run that failed before its commit. If a managed file changed after the plan was made, the run
// does not end: again is true.
func (r *Run) endUnlessChanged(
	ctx context.Context,
	p *boot.Plan,
	h hold,
	err error,
) (res Result, again bool) {
	if errors.Is(err, generation.ErrChanged) {
		return Result{Plan: p, Err: err}, true
	}

	return r.endError(ctx, p, h, err), false
}

// noteComparison notes which files cannot go back to their content before prelet, and reports those that come back
// without setuid and setgid.
func (r *Run) noteComparison(c *generation.Comparison) {
	for _, why := range c.WithoutSetID {
		r.Report.Degrade(string(fault.CannotWrite), why)
	}

	if len(c.Lost) > 0 {
		r.Report.Note(
			string(fault.Adopted),
			"the generation in place is damaged, so these files cannot be restored to their content before prelet: "+
				strings.Join(c.Lost, ", "),
		)
	}
}

// needsAdoption reports whether a new generation is needed although no file differs.
func (r *Run) needsAdoption(c *generation.Comparison) bool {
	return c.Adopts || isDamaged(r.Store) || r.hasLostVerdict()
}

// applyUnchanged continues with the files in place, which are as planned. adopts makes a new generation of them.
func (r *Run) applyUnchanged(
	ctx context.Context, p *boot.Plan, proposal generation.Proposal, act activation.Plan, h hold, adopts bool,
) (res Result, again bool) {
	if !adopts && !proposal.Force {
		return r.resumeUnchanged(ctx, p, act, h), false
	}

	proposal.Force = true

	return r.adoptFiles(ctx, p, proposal, act, h)
}

// adoptFiles makes a generation of files that all are as planned, and that no generation of this machine in place
// records so: there is none, it is damaged, its verdict was lost, or the state folder was lost or restored from a
// backup. The gate is not shut and the kubelet is not stopped.
func (r *Run) adoptFiles(
	ctx context.Context, p *boot.Plan, proposal generation.Proposal, act activation.Plan, h hold,
) (res Result, again bool) {
	if _, err := r.Machine.Preflight(ctx, act.Unit, nil); err != nil {
		return r.endError(ctx, p, h, err), false
	}

	if h.release { // before the files are adopted, which the next run does as well
		if err := r.Store.Release(); err != nil {
			return r.endError(ctx, p, h, err), false
		}

		r.reportReleased(h)
	}

	gen, err := r.Store.Adopt(proposal)

	switch {
	case errors.Is(err, generation.ErrDiffers), errors.Is(err, generation.ErrChanged):
		return Result{Plan: p, Err: err}, true
	case fault.CodeOf(err) == fault.CannotWrite: // the files are as planned, recorded or not
		r.Report.Degrade(
			string(fault.CannotWrite),
			"every file is as planned, and that cannot be recorded: "+err.Error(),
		)
		return r.resumeUnchanged(ctx, p, act, h), false
	case err != nil:
		return r.endCommitted(ctx, p, h, activation.Outcome{}, err), false
	}

	r.Report.Generation(gen)
	r.Report.Event(report.Event{
		Stage:   "commit",
		State:   report.OK,
		Message: report.MessageCommitted,
		Summary: fmt.Sprintf("generation %d: every file was as planned already, and is adopted", gen),
	})

	out, err := r.Machine.Resume(ctx)

	return r.endCommitted(ctx, p, h, out, err), false
}

// resumeUnchanged continues with the generation in place, which is as planned.
func (r *Run) resumeUnchanged(
	ctx context.Context,
	p *boot.Plan,
	act activation.Plan,
	h hold,
) Result {
	if h.release {
		if err := r.Store.Release(); err != nil {
			return r.endError(ctx, p, h, err)
		}

		r.reportReleased(h)
	}

	out, err := r.Machine.ResumeUnchanged(ctx, act)

	return r.endActivated(ctx, p, h, out, err)
}

func changesUnitFiles(entries []generation.Entry) bool {
	return slices.ContainsFunc(entries, func(e generation.Entry) bool {
		return strings.Contains(e.Path, "/systemd/system") && e.Action != generation.ActionNone &&
			e.Action != generation.ActionKeep
	})
}

// hasNoSite reports whether the site has no file. A site with a broken file is an error.
func hasNoSite(p *boot.Plan) bool {
	return (p.Site == nil || len(p.Site.Files) == 0) &&
		slices.ContainsFunc(p.Diagnostics, func(d *hcl.Diagnostic) bool {
			return d.Severity == hcl.DiagError && origin.CodeOf(d) == fault.NoSite
		})
}

func (r *Run) whyHeld(p *boot.Plan) string { return WhyHeld(r.Store, p) }

// WhyPinned returns the reason when no plan may be applied: a generation is pinned, or that cannot be read.
func WhyPinned(s *generation.Store) (why string, ok bool) {
	gen, why, ok := s.Pinned()
	if gen == generation.Unreadable {
		return fmt.Sprintf("what is held on this node cannot be read (%s)", why), ok
	}

	return fmt.Sprintf("generation %d is pinned (%s)", gen, why), ok
}

// WhyHeld returns why a plan must not be applied, or "".
func WhyHeld(s *generation.Store, p *boot.Plan) string {
	if why, ok := WhyPinned(s); ok {
		return why + "; to apply the site again: prelet rollback --release"
	}

	if why, ok := s.Held(PlanID(p)); ok {
		return fmt.Sprintf("this plan failed before: %s; prelet run --retry tries it again", why)
	}

	return ""
}

// restoreInPlace restores changed files of the generation in place and continues with it, because the site's plan is
// held.
func (r *Run) restoreInPlace(ctx context.Context, p *boot.Plan, h hold) Result {
	cur, err := r.Store.Current()
	if err != nil {
		return r.endError(ctx, p, h, err)
	}

	if cur == nil {
		return r.resume(ctx, p, h)
	}

	goal, err := r.findInPlace(cur)

	switch {
	case err != nil:
		return r.endError(ctx, p, h, err)
	case goal == nil:
		r.Report.Degrade(string(fault.Held), fmt.Sprintf(
			"generation %d was rolled back, and the generation after it is lost: the files stay as they are",
			cur.Gen,
		))

		return r.resume(ctx, p, h)
	case goal.Restores == 0 && cur.Restores != 0: // what came after it is lost, and was as before prelet
		out, err := r.Machine.GoBack(ctx, 0, h.why)
		if err != nil {
			return r.endActivated(ctx, p, h, out, err)
		}

		return r.endCommitted(ctx, p, h, out, nil)
	}

	return r.restore(ctx, p, h, cur, goal)
}

// restore puts the contents of the generation goal in place if they differ, and continues with them. cur is the
// generation in place.
func (r *Run) restore(
	ctx context.Context,
	p *boot.Plan,
	h hold,
	cur, goal *generation.Info,
) Result {
	proposal, act, ok, err := r.proposeGeneration(p, goal)
	if err != nil {
		return r.endError(ctx, p, h, err)
	}

	if !ok {
		return r.resume(ctx, p, h)
	}

	c, err := r.Store.Compare(proposal)
	if err != nil {
		return r.endError(ctx, p, h, err)
	}

	if !c.Changed && !r.needsAdoption(c) {
		return r.resume(ctx, p, h)
	}

	r.notify("commit", describeRestored(cur, goal, c.Changed))

	res, again := r.commit(ctx, p, proposal, act, h)
	if again { // changed again meanwhile: left to the next run
		return r.endFailed(ctx, p, h, fault.CannotWrite, res.Err)
	}

	return res
}

// resume continues with the generation in place.
func (r *Run) resume(ctx context.Context, p *boot.Plan, h hold) Result {
	out, err := r.Machine.Resume(ctx)

	return r.endActivated(ctx, p, h, out, err)
}

// notify reports a step that is worth a line, and is not a failure.
func (r *Run) notify(stage, summary string) {
	r.Report.Event(report.Event{
		Stage:   stage,
		State:   report.Notice,
		Summary: summary,
	})
}

// describeRestored returns why the files of the generation goal are put in place, or adopted as they are.
func describeRestored(cur, goal *generation.Info, isChanged bool) string {
	switch {
	case goal.Gen != cur.Gen && cur.Status == generation.StatusRolledBack:
		return fmt.Sprintf(
			"generation %d was rolled back, and the generation after it is lost: "+
				"the contents of generation %d are restored",
			cur.Gen,
			goal.Gen,
		)
	case goal.Gen != cur.Gen:
		return fmt.Sprintf("the contents of generation %d are in place again, and not those of %d", goal.Gen, cur.Gen)
	case isChanged:
		return "somebody changed files of the generation in place; they are put back"
	}

	return "what is kept of the generation in place is damaged or lost; its files are adopted as they are"
}

// findPlanID returns the ID of a generation's plan.
func (r *Run) findPlanID(gen int) string {
	all, _ := r.Store.List()
	for _, info := range all {
		if info.Gen == gen {
			return info.PlanID
		}
	}

	return fmt.Sprintf("that of generation %d", gen) // not found: it is held all the same
}

// unitName returns the kubelet's unit from the plan of the generation in place.
func (r *Run) unitName() string {
	cur := readCurrent(r.Store)
	if cur == nil {
		return activation.DefaultUnit
	}

	plan, err := readActivation(r.Store, cur.Gen)
	if err != nil {
		return activation.DefaultUnit
	}

	return plan.Unit
}

func readActivation(s *generation.Store, gen int) (activation.Plan, error) {
	text, err := s.Blob(gen, activation.PlanBlob)
	if err != nil {
		return activation.Plan{}, err
	}

	return activation.DecodePlan(text)
}

// Verify judges a generation that awaits a verdict, and reports the outcome.
func (r *Run) Verify(ctx context.Context) Result {
	out, err := r.Machine.Verify(ctx)
	if fault.CodeOf(err) == fault.NeedsPerson {
		return r.endBroken(ctx, err)
	}

	return r.collect(r.endActivated(ctx, nil, hold{}, out, err))
}

// collect removes old generations after a verdict.
func (r *Run) collect(res Result) Result {
	if res.Err == nil && (res.Outcome.Verdict == activation.Good || res.Outcome.From != 0) {
		if err := Collect(r.Store); err != nil {
			r.notify("collect", err.Error())
		}
	}

	return res
}
