package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Run is one run on a node, from the recovery of an interrupted change to the verdict:
//
//	a newer prelet's generation in place ────▶ open the gate
//	recover ─▶ no site, never a generation ─▶ open the gate
//	   │       plan ── fails ─────────────────▶ keep the generation in place, if it is complete and good
//	   │        ├─ held ──────────────────────▶ restore the files of the generation in place, resume
//	   │        ├─ nothing to change ─────────▶ resume
//	   └────────┴─ preflight, begin, apply ───▶ good, pending, or rolled back
//
// The caller calls Begin, and then Apply with a new plan until one of them reports the end. Verify, RollBack and
// KeepWithoutRun are the other entries, without a plan. The lock is held before and after each.
type Run struct {
	Store   *generation.Store // locked
	Machine *activation.StateMachine
	Report  *report.Reporter

	Retry  bool // a held plan is released and tried again
	Off    bool // prelet=off: only the gate opens, on the generation in place
	NoHold bool // the kubelet starts although a hold of the site is true

	// SiteUnit returns the kubelet's unit as the site names it, for a node without a plan. Nil: it is kubelet.service.
	SiteUnit func() string

	Result // at the end

	plans          bool               // Begin was called
	areHoldsAsked  bool               // held is known
	held           *fault.Fault       // why holds of the site keep the kubelet from starting; nil: none does
	isHoldPlanned  bool               // by the plan of this run
	wereHoldsKnown bool               // an earlier run found one to be true
	unrestored     string             // why files of the generation in place could not be put back
	replans        int                // because a managed file changed meanwhile
	mounts         []activation.Mount // at or above managed files
	mountsUnknown  bool               // systemd did not say
}

// Result is how a run, a verdict, a rollback, a recovery or a look ended. All documents are rendered from it.
type Result struct {
	Plan    *evaluate.Plan // the last one; nil when there was none
	Outcome activation.Outcome
	Changed bool       // a generation was committed
	Held    string     // why the site's plan is not applied; "" when it is
	Code    fault.Code // "" when nothing failed
	Reason  string     // what failed before the commit: the first of Plan's diagnostics, or Err
	Summary string     // one line
	Err     error      // an error that is not in Plan's diagnostics

	inStatus fault.Reason // of a verify: Code and Summary of the status; zero: those of the command

	Entries  []generation.Entry // the changed files of the generation that was committed
	Degraded []fault.Reason     // of a run: differences from the site that do not stop the boot

	Off      bool // of verify: prelet=off, so nothing was judged
	To       int  // of a rollback: the generation whose contents are in place; 0: as before prelet
	Released bool // of a rollback: held plans and the pinned generation were released, and nothing else
	WasHeld  bool // with Released: there were some

	IsPrinted bool // another process ran this command and printed its result, of which only Code is known here
}

// maxReplans is how often a plan is made again because a managed file changed meanwhile.
const maxReplans = 2

// keepTimeout limits the work after SIGTERM.
const keepTimeout = 10 * time.Second

// Begin recovers what an interrupted run left, and waits for mounts. It reports whether the run ends without a plan.
func (r *Run) Begin(ctx context.Context) (isEnded bool) {
	r.plans = true
	if r.EndNewer(ctx) {
		return true
	}

	_, err := r.Machine.Enter(ctx, activation.Entry{On: activation.OnFinish})
	if err != nil {
		r.endBroken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
		return true
	}

	if over := r.Store.StartsOver(); over != nil {
		r.Report.Degrade(fault.SetAside, over.String()+"; the run goes on with the files as they are")
	}

	r.degradeReadOnly()

	if cur := readCurrent(r.Store); cur != nil {
		r.Report.Generation(cur.Gen)
	}

	if r.Off {
		r.endOff(ctx)
		return true
	}

	r.awaitMounts(ctx, nil)

	return false
}

// Apply applies a plan. It reports false if the plan must be made again: a file system was mounted at or above one of
// its files, or a managed file changed meanwhile.
func (r *Run) Apply(ctx context.Context, o ProposalInput) (isEnded bool) {
	p := o.Plan
	if p.Complete && r.awaitMounts(ctx, p.Node.Files) {
		return false
	}
	r.reportMissingMounts()
	r.degrade(p)

	a := attempt{Run: r, options: o}
	redact := strings.Clone // a plan that failed while its site was loaded has no redactor, and no message of the site
	if o.Redactor != nil {
		redact = o.Redactor.String
	}
	r.askHolds(ctx, p, redact)

	var out activation.Outcome
	var err error
	switch {
	case !p.Complete:
	case r.held != nil:
		err = r.held
	default:
		out, err = a.place(ctx)
	}

	hasChanged := errors.Is(err, generation.ErrChanged)
	switch {
	case hasNoSite(p):
		r.endWithoutSite(ctx, p)
	case !p.Complete:
		r.endFailed(ctx, a, p.Code(), nil)
	case a.isEntered:
		r.end(ctx, ending{
			on:       activation.OnChange,
			attempt:  a,
			enterErr: err,
			Result:   Result{Plan: p, Outcome: out, Changed: a.isCommitted},
		})
	case hasChanged && r.replans < maxReplans:
		r.replans++
		r.notify("commit", "planned again: "+err.Error())
		return false
	case hasChanged:
		r.endFailed(ctx, a, fault.CannotWrite, fmt.Errorf("%w (planned again %d times)", err, maxReplans))
	default:
		r.endFailed(ctx, a, fault.CodeOf(err), err)
	}

	return true
}

func (r *Run) endWithoutSite(ctx context.Context, p *evaluate.Plan) {
	cur, err := r.Store.Current()
	if err != nil {
		r.endBroken(ctx, err)
		return
	}

	e := ending{on: activation.OnNoSite, attempt: attempt{Run: r}}
	if cur != nil {
		e.generationBefore = cur.Gen
		e.Plan = p // else a missing site is not an error of the plan
	}
	if r.whyHeld(ctx) == "" {
		e.Outcome, e.Changed, e.enterErr = e.attempt.restoreAfterFailure(ctx)
	}
	if !e.Changed {
		e.Outcome, e.enterErr = r.enter(ctx, activation.Entry{On: e.on})
	}
	r.end(ctx, e)
}

// enter enters the machine, unless only to finish a change or with prelet=off: so each way to the gate asks for the
// holds of the site. It asks before the machine may stop a kubelet that runs, which is not held.
func (r *Run) enter(ctx context.Context, e activation.Entry) (activation.Outcome, error) {
	e.Held = cmp.Or(e.Held, r.whyHeld(ctx))
	e.Unrestored = r.unrestored

	return r.Machine.Enter(ctx, e)
}

// attempt is a complete plan on its way to the disk.
type attempt struct {
	*Run
	options     ProposalInput
	held        string // why the plan is held; "" when it is not
	isWaiting   bool   // held is why a pulled site waits, and nothing is wrong
	releases    bool   // the plan is released with the commit
	isEntered   bool   // the machine was entered: an error is not one before the commit
	isCommitted bool
}

// enterInPlace enters the machine with the generation in place.
func (a *attempt) enterInPlace(ctx context.Context, e activation.Entry) (activation.Outcome, error) {
	a.isEntered = true

	return a.enter(ctx, e)
}

// place puts the plan in place, or restores the generation in place if the plan is held.
func (a *attempt) place(ctx context.Context) (activation.Outcome, error) {
	p := a.options.Plan
	a.held = WhyHeld(a.Store, p)

	if a.held == "" && a.options.Waits != "" && readCurrent(a.Store) != nil && !a.isForeign() {
		a.held = a.options.Waits
		a.isWaiting = true

		return a.enterInPlace(ctx, activation.Entry{On: activation.OnResume})
	}

	switch {
	case a.held == "":
	case a.isForeign(): // the plan was held on the machine that this one is a copy of
		a.held += " (on another machine)"
		a.releases = true
	case !a.Retry:
		return a.restoreInPlace(ctx)
	default:
		a.releases = true
	}

	if p.Previous != nil {
		a.Report.Note(fault.Identity, p.Previous.Sentence())
	}

	if err := a.checkPodState(ctx, p); err != nil {
		return activation.Outcome{}, err
	}
	proposal, spec, err := BuildProposal(a.options)
	if err == nil {
		err = a.checkUnit(p, spec.Unit)
	}
	if err != nil {
		return activation.Outcome{}, err
	}

	return a.commit(ctx, proposal, spec)
}

// reportReleased reports that held plans were released.
func (a *attempt) reportReleased() {
	if a.releases {
		a.notify("commit", "released and tried again: "+a.held)
	}
}

// reportCommitted reports the number of a generation right after the commit, so that later reports refer to it, and the
// removed states of the kubelet's managers, with the reason: a pod may get other CPUs or another NUMA node than before.
func (a *attempt) reportCommitted(gen int) {
	a.Report.Generation(gen)
	a.reportReleased()
	if a.options.Plan == nil || !a.options.Plan.Complete {
		return
	}
	for _, c := range a.options.Plan.Changes {
		if c.File.Purpose == "state" && c.Action == "delete" {
			a.notify("commit", fmt.Sprintf("%s is removed, and the kubelet makes a new one: %s", c.File.Path, c.Why))
		}
	}
}

// checkUnit refuses to act on another unit than before because no restart stage names it any more: a layer that is
// missing must not start a second kubelet.
func (r *Run) checkUnit(p *evaluate.Plan, unit string) error {
	was := UnitInPlace(r.Store, r.Machine)
	if p.Node.Activation != nil || was == "" || was == unit {
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

// checkPodState refuses to remove a state file of the kubelet's managers while pods may use the CPUs or memory that it
// lists. A file that only does not fit this boot's machine is kept then: the kubelet that runs needs it, and only its
// next start fails. A boot, before the kubelet, removes it.
func (r *Run) checkPodState(ctx context.Context, p *evaluate.Plan) error {
	isRemoved := func(c evaluate.FileChange) bool { return c.File.Purpose == "state" && c.Action == "delete" }
	if !slices.ContainsFunc(p.Changes, isRemoved) {
		return nil
	}

	unit := p.Node.KubeletUnit()
	u, err := r.Machine.Node.Look(ctx, unit)
	if err != nil { // Preflight reports that systemd does not answer
		return nil
	}

	var kept []evaluate.FileChange
	for _, c := range p.Changes {
		err = nil
		if isRemoved(c) {
			err = activation.CheckPodState(u, c.File.Path, c.Why, fmt.Sprintf(
				"drain the node and reboot it: the boot applies the site; "+
					"or drain it, systemctl stop %[1]s, prelet run, systemctl start %[1]s",
				unit,
			))
		}

		switch {
		case err == nil:
			kept = append(kept, c)
		case !c.Outdated:
			return err
		default:
			r.Report.Degrade(fault.KubeletMachine, fmt.Sprintf(
				"%s stays while pods may use the CPUs or memory in it, and the kubelet's next start fails: %s; "+
					"drain the node and reboot it",
				c.File.Path,
				c.Why,
			))
		}
	}
	p.Changes = kept

	return nil
}

// degrade reports deviations from the site, files of the system that it writes, and that the host has another name than
// its node. For cached data of an earlier boot the reason is in the diagnostic.
func (r *Run) degrade(p *evaluate.Plan) {
	stale := map[string]bool{}

	for _, d := range p.Diagnostics {
		code := origin.CodeOf(d)
		if origin.IsNote(d) && (code == fault.SystemFile || code == fault.Identity) {
			r.Report.Note(code, d.Summary+": "+d.Detail)
		}
		if code == fault.Stale {
			why, _, _ := strings.Cut(d.Detail, ". ")
			stale[d.Summary] = true
			r.Report.Degrade(fault.Stale, d.Summary+": "+why)
		}
	}

	for _, d := range p.Degraded {
		if d.Code != fault.Stale || !stale[d.Summary] {
			r.Report.Degrade(d.Code, d.Summary)
		}
	}
}

// isForeign reports whether the generation in place was made on another machine.
func (r *Run) isForeign() bool {
	cur := readCurrent(r.Store)
	return cur != nil && r.Machine.WhyForeign(cur.Gen) != ""
}

// readCurrent returns the generation in place; nil if none is, or if it cannot be read.
func readCurrent(s *generation.Store) *generation.Info {
	cur, err := s.Current()
	if err != nil {
		return nil
	}

	return cur
}

// commit puts a proposal in place if it differs, and activates it.
func (a *attempt) commit(
	ctx context.Context, proposal generation.Proposal, spec activation.Spec,
) (out activation.Outcome, err error) {
	if gen, isOpen, err := a.Machine.Gate.State(); err == nil && isOpen {
		proposal.Above = max(0, gen) // also when the state folder was lost
	}

	a.recordMounts(&proposal)

	c, err := a.Store.Compare(proposal)
	if err != nil {
		return out, err
	}

	a.noteComparison(c)

	if c.ChangesNothing(proposal) {
		return a.resumeUnchanged(ctx, spec)
	}

	a.noteCovered(ctx)

	names := []string{spec.Unit}
	if a.options.Plan != nil {
		names = append(names, a.options.Plan.Node.Aliases...)
	}
	proposal.Release = a.releases
	out, err = a.enter(ctx, activation.Entry{On: activation.OnChange, Change: &activation.Change{
		Proposal:  proposal,
		Compared:  c,
		Spec:      spec,
		Committed: a.reportCommitted,
		Reload:    changesUnitFiles(c.Entries),
		UnitFiles: a.readUnitFiles(names, proposal, c.Entries),
	}})
	a.isCommitted = out.Committed
	a.isEntered = out.Committed
	cannotWrite := fault.CodeOf(err) == fault.CannotWrite && !errors.Is(err, generation.ErrChanged)
	if cannotWrite && !c.Changed && !out.Committed && !out.IsRefused {
		a.Report.Degrade(
			fault.CannotWrite,
			"every file is as planned, and that cannot be recorded: "+err.Error(),
		)
		return a.enterInPlace(ctx, activation.Entry{On: activation.OnUnchanged, Spec: spec})
	}

	return out, err
}

// readUnitFiles returns the files of a unit with some names that a commit changes, with their content; nil for a
// removed file.
func (r *Run) readUnitFiles(
	names []string,
	p generation.Proposal,
	entries []generation.Entry,
) map[string][]byte {
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

// noteComparison reports the files that come back without setuid and setgid, and those that cannot be read.
func (r *Run) noteComparison(c *generation.Comparison) {
	for _, why := range c.WithoutSetID {
		r.Report.Degrade(fault.CannotWrite, why)
	}
	for _, damaged := range generation.ListUnreadable(c.Entries) {
		r.Report.Degrade(fault.NoAnswer, damaged+"; look at dmesg: the disk may fail")
	}
}

// release releases the held plan, and the pin, where no commit does.
func (a *attempt) release() error {
	if !a.releases {
		return nil
	}
	if err := a.Store.Release(); err != nil {
		return err
	}
	a.reportReleased()

	return nil
}

// resumeUnchanged continues with the generation in place, which is as planned.
func (a *attempt) resumeUnchanged(ctx context.Context, spec activation.Spec) (activation.Outcome, error) {
	if err := a.release(); err != nil {
		return activation.Outcome{}, err
	}

	return a.enterInPlace(ctx, activation.Entry{On: activation.OnUnchanged, Spec: spec})
}

func changesUnitFiles(entries []generation.Entry) bool {
	return slices.ContainsFunc(entries, func(e generation.Entry) bool {
		return strings.Contains(e.Path, "/systemd/system") && e.HasChange()
	})
}

// hasNoSite reports whether the site has no file. A site with a broken file is an error.
func hasNoSite(p *evaluate.Plan) bool {
	return (p.Site == nil || len(p.Site.Files) == 0) &&
		slices.ContainsFunc(p.Diagnostics, func(d *hcl.Diagnostic) bool {
			return d.Severity == hcl.DiagError && origin.CodeOf(d) == fault.NoSite
		})
}

// WhyPinned returns the reason when no plan may be applied: a generation is pinned.
func WhyPinned(s *generation.Store) (why string, ok bool) {
	gen, why, ok := s.Pinned()

	return fmt.Sprintf("generation %d is pinned (%s)", gen, why), ok
}

// WhyHeld returns why a plan must not be applied, or "".
func WhyHeld(s *generation.Store, p *evaluate.Plan) string {
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
func (a *attempt) restoreInPlace(ctx context.Context) (out activation.Outcome, err error) {
	out, isRestored, err := a.restore(ctx)
	if isRestored || err != nil {
		return out, err
	}

	return a.enterInPlace(ctx, activation.Entry{On: activation.OnResume})
}

// restore restores changed files of the generation in place, in a new one with the same contents, and activates that.
// It reports whether there were any.
func (a *attempt) restore(ctx context.Context) (out activation.Outcome, isRestored bool, err error) {
	cur, err := a.Store.Current()
	if err != nil || cur == nil || cur.Restores == 0 { // no files of a plan
		return out, false, err
	}

	proposal, spec, err := a.proposeGeneration(cur.Gen)
	if err != nil {
		return out, false, err
	}
	c, err := a.Store.Compare(proposal)
	if err != nil || !c.Changed {
		return out, false, err
	}

	a.notify("commit", "somebody changed files of the generation in place; they are put back")

	out, err = a.commit(ctx, proposal, spec)
	if errors.Is(err, generation.ErrNothing) { // none of them can be put back
		return out, false, nil
	}

	return out, true, err
}

// restoreAfterFailure is restore after a run that failed before its commit, where a kubelet may start on the generation
// in place. It reports whether a generation was committed, and an error only then.
func (a *attempt) restoreAfterFailure(ctx context.Context) (out activation.Outcome, isCommitted bool, err error) {
	cur := readCurrent(a.Store)
	if cur == nil || a.isForeign() || a.Store.ReadOnly() != nil || !a.Machine.MayGoOn(ctx, cur) {
		return out, false, nil
	}

	a.releases = false // the plan of the site is not tried
	out, _, err = a.restore(ctx)
	if err != nil && !a.isCommitted {
		a.unrestored = err.Error()
		a.notify("commit", "files of the generation in place could not be put back: "+a.unrestored)
		err = nil
	}

	return out, a.isCommitted, err
}

// notify reports a step that is worth a line, and is not a failure.
func (r *Run) notify(stage, summary string) {
	r.Report.Event(report.Event{
		Stage:   stage,
		State:   report.Notice,
		Summary: summary,
	})
}

func (r *Run) findPlanID(gen int) string {
	info, ok := r.Store.Info(gen)
	if !ok {
		return fmt.Sprintf("that of generation %d", gen) // it is held all the same
	}

	return info.PlanID
}

// findSite returns the digest of the pulled site of a generation; "" if it has none, or its recording cannot be read.
func (r *Run) findSite(gen int) string {
	recording, err := tape.ReadKept(r.Store, gen)
	if err != nil || recording.Header.Pulled == nil {
		return ""
	}

	return recording.Header.Pulled.Digest
}

// UnitName returns the kubelet's unit from the plan of the generation in place, or of the run that has ended, or as the
// site names it.
func (r *Run) UnitName() string {
	unit := UnitInPlace(r.Store, r.Machine)
	switch {
	case unit != "":
		return unit
	case r.Plan != nil && (r.Plan.Complete || r.Plan.Node.Activation != nil):
		return r.Plan.Node.KubeletUnit()
	case r.SiteUnit != nil:
		return r.SiteUnit()
	}

	return activation.DefaultUnit
}

// UnitInPlace returns the kubelet's unit from the plan of the generation in place; "" if there is none, or if it cannot
// be read. The store may be nil.
func UnitInPlace(s *generation.Store, m *activation.StateMachine) string {
	if s == nil {
		return ""
	}
	cur := readCurrent(s)
	if cur == nil {
		return ""
	}

	spec, err := m.SpecOf(cur.Gen)
	if err != nil {
		return ""
	}

	return spec.Unit
}

// Verify judges a generation that awaits a verdict, and reports the outcome.
func (r *Run) Verify(ctx context.Context) {
	r.degradeReadOnly()

	was, _ := r.Store.Journal() // an error of it is one of Enter
	out, err := r.enter(ctx, activation.Entry{On: activation.OnVerify})
	if err == nil && was.IsUnfinished() && r.Machine.IsAsFound() { // the first change was taken back
		out, err = r.enter(ctx, activation.Entry{On: activation.OnResume})
	}
	if fault.CodeOf(err) == fault.NeedsPerson {
		r.endBroken(ctx, err)
		return
	}

	r.end(ctx, ending{on: activation.OnVerify, enterErr: err, Result: Result{Outcome: out}})
}

// degradeReadOnly degrades an entry with a store that cannot be written.
func (r *Run) degradeReadOnly() {
	if err := r.Store.ReadOnly(); err != nil {
		r.Report.Degrade(fault.CannotWrite, "no change and no verdict can be stored: "+err.Error())
	}
}
