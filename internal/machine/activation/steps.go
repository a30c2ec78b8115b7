package activation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
)

// maxTries is the number of boots that may begin to verify a generation and not finish. The next boot rolls back.
const maxTries = 3

// maxRounds bounds how often a verdict may be superseded before this process leaves it to the others.
const maxRounds = 5

const (
	stopWait    = 100 * time.Second // longer than systemd's own TimeoutStopSec=90s, so that its result comes first
	minStopWait = 5 * time.Second   // minimum after the deadline: a rollback needs the kubelet stopped
	lockWait    = 30 * time.Second
	WaitMargin  = 30 * time.Second
)

// step runs one step. Those that get ctx, and not steady, end with it: they come before the commit, or wait for others.
// Only watch and actUnits return a trigger.
func (m *StateMachine) step(ctx context.Context, s step, on Trigger, h location, t *walkState) (Trigger, error) {
	steady := context.WithoutCancel(ctx)

	switch s {
	case sweep:
		_, err := m.Store.Recover()
		return done, err
	case preflight:
		_, err := m.Preflight(ctx, t.Change.Spec, t.Change.UnitFiles)
		t.out.IsRefused = err != nil
		return done, err
	case preflightBack:
		return done, m.preflightBack(ctx, h, t)
	case stage:
		return done, m.stage(t)
	case commit:
		return done, m.commit(ctx, t)
	case shutGate:
		return done, m.shutGate(on, h, t)
	case stop:
		return done, m.stop(steady, on, h, t)
	case publish:
		return done, m.publish(h, t)
	case complete:
		return done, m.complete(t)
	case restore:
		return done, m.restore(h, t)
	case reload:
		return done, m.reload(steady, h, t)
	case actUnits:
		return m.actUnits(ctx, h, t), nil
	case countTry:
		return done, wrapAfterCommit("counting the try", m.countTry(t))
	case openGate:
		return done, m.openGate(h, t)
	case notePending:
		return done, m.Gate.SetPending(h.journal != nil)
	case requestStart:
		return done, m.requestStart(steady, h, t)
	case watch:
		return m.watchUnlocked(ctx, h, t)
	case uncountTry:
		return done, m.endUnjudged(ctx, h, t)
	case retire:
		return done, m.endVerdict(h, t, m.retire(h))
	case closeGood:
		return done, m.endVerdict(h, t, m.closeGood(h, t))
	case closeBad:
		err := m.Store.MarkUnhealthy(h.journal.Gen, t.judged.Why)
		if err == nil {
			err = m.Gate.SetPending(false)
		}
		return done, m.endVerdict(h, t, err)
	case holdBack:
		t.out.HeldBack = h.blockReason
		return done, m.Gate.Shut(h.blockReason)
	case reportShut:
		t.out.HeldBack = m.whyShut(steady, h)
		return done, nil
	case reportOther:
		m.reportOther(h, t)
		return done, nil
	case leavePending:
		const why = "other runs keep taking over; the last of them judges"
		t.out = Outcome{Judgement: Judgement{Verdict: Pending, Why: why}, Generation: h.journal.Gen}

		return done, nil
	case patchLabels:
		return done, m.runUnlocked(ctx, func() {
			t.out.Checks = m.reconcile(ctx, t.Spec, nil)
		})
	}

	return done, fault.Internal.Errorf("activation has no step %d", s)
}

// stage stages the change of a run. An error has changed nothing.
func (m *StateMachine) stage(t *walkState) (err error) {
	t.txn, err = m.Store.Stage(t.Change.Proposal, t.Change.Compared)

	return err
}

// preflightBack checks whether a rollback by hand could be activated. A rollback that removes a state file of the
// kubelet's managers is refused while pods may use the CPUs or memory in it, as in a run.
func (m *StateMachine) preflightBack(ctx context.Context, h location, t *walkState) error {
	if why := m.WhyForeign(t.To); why != "" {
		return &fault.Fault{
			Code:    fault.Usage,
			Summary: fmt.Sprintf("generation %d was made on another machine: %s", t.To, why),
			Next:    "prelet history lists the others; 0 is as before prelet",
		}
	}

	unit, err := m.Preflight(ctx, h.spec, nil)
	if err != nil {
		return err
	}

	if h.rollback == nil {
		return h.stayErr
	}

	for _, state := range h.rollback.removeFiles {
		why := fmt.Sprintf("generation %d has another policy of the manager whose state it is", t.To)
		next := fmt.Sprintf(
			"drain the node, systemctl stop %[1]s, prelet rollback %[2]d, systemctl start %[1]s",
			h.spec.Unit,
			t.To,
		)

		if err := CheckPodState(unit, state, why, next); err != nil {
			return err
		}
	}

	err = m.exemptUnhealthy(ctx, h.spec, m.specOrDefault(t.To))
	if err != nil {
		return err
	}

	return m.noteAlive(unit)
}

// noteAlive notes a unit that is alive before a commit. A later process that recovers without systemd must not assume
// that the gate has blocked this unit.
func (m *StateMachine) noteAlive(u Unit) error {
	if !isAlive(u) {
		return nil
	}

	return systemdFault("noting that "+u.Name+" runs", m.Gate.MarkSeen())
}

// commit is where a change begins that goes only forward. A signal counts until here.
func (m *StateMachine) commit(ctx context.Context, t *walkState) error {
	unit, err := m.lookAgain(ctx, t.Change.Spec, t.Change.UnitFiles)
	if t.out.IsRefused = err != nil; err != nil {
		return err
	}
	if ctx.Err() != nil {
		return systemdFault("stopped before the commit", context.Cause(ctx))
	}
	if err := m.exemptUnhealthy(ctx, t.Change.Spec); err != nil {
		return err
	}
	if err := m.noteAlive(unit); err != nil {
		return err
	}

	m.startBound(t, t.Change.Spec)
	m.note("commit", "started", "%s", t.Change.Spec.Unit)

	// Before the journal exists: a process that is killed in between leaves a note too many, and never one too few.
	if err := m.Gate.SetPending(true); err != nil {
		return err
	}

	gen, err := t.txn.Commit()
	t.committed = err == nil || fault.CodeOf(err) == fault.Interrupted // the journal could be seen

	if err != nil {
		m.note("commit", "failed", "%v", err)
		return err
	}

	if t.Change.Committed != nil {
		t.Change.Committed(gen)
	}
	t.out.Generation = gen
	m.Node.Note(report.Event{
		Stage:   "commit",
		State:   report.OK,
		Summary: fmt.Sprintf("generation %d", gen),
		Message: report.MessageCommitted,
	})

	return nil
}

// shutGate shuts the gate, so that no kubelet starts while files change.
func (m *StateMachine) shutGate(on Trigger, h location, t *walkState) error {
	var why string

	switch {
	case on == onCommitted:
		why = fmt.Sprintf("generation %d is being put in place", h.journal.Gen)
	case h.phase == mixed:
		m.note("recover", "started", "generation %d: the journal has phase %s", h.journal.Gen, h.journal.Phase)
		why = fmt.Sprintf("generation %d is being put in place after a crash", h.journal.Gen)
	default:
		m.startBound(t, h.spec)
		m.note(
			"rollback",
			"started",
			"from generation %d to the contents of %d: %s",
			h.rollback.from,
			h.rollback.to,
			h.rollback.reason,
		)
		why = fmt.Sprintf("rolling back generation %d: %s", h.rollback.from, h.rollback.reason)
	}

	if err := m.Gate.Shut(why); err != nil {
		return wrapAfterCommit(describeStopped(on, h), err)
	}

	m.note("gate", "ok", "shut: %s", why)

	return nil
}

// describeStopped returns the first words of an error that occurred while the kubelet was kept from running.
func describeStopped(on Trigger, h location) string {
	switch {
	case on == onCommitted:
		return fmt.Sprintf("generation %d is committed and not in place yet", h.journal.Gen)
	case h.phase == mixed:
		return "recovering"
	}

	return "rolling back"
}

// stop stops the unit, so that no process reads the files that are about to change.
func (m *StateMachine) stop(ctx context.Context, on Trigger, h location, t *walkState) error {
	if h.rollback == nil && h.keepsKubelet || h.rollback != nil && h.rollback.keeps {
		return nil
	}

	err := m.stopUnit(ctx, h.spec.Unit, t)

	// No kubelet has started behind a gate that was shut for the whole boot, so a recovery works without systemd. If
	// the gate was open before, or a kubelet ran before the gate existed, that kubelet may still run.
	if h.phase == mixed && on != onCommitted && h.noneStarted && errors.Is(err, errMayRun) {
		return nil
	}

	return wrapAfterCommit(describeStopped(on, h), err)
}

// stopUnit stops a unit if it is alive, and notes that it is owed a start. After an error no file may change.
func (m *StateMachine) stopUnit(ctx context.Context, unit string, t *walkState) error {
	u, err := m.Node.Look(ctx, unit)
	if err != nil {
		return fmt.Errorf("looking at %s: %w (%w)", unit, err, errMayRun)
	}

	if !isAlive(u) {
		return nil
	}

	if isWanted(u) { // a unit that is being stopped by hand is not started again
		if err := m.Gate.MarkOwed(unit); err != nil {
			return err
		}
	}

	m.note("stop", "started", "%s", unit)
	wait := m.limitWait(t, stopWait, minStopWait)
	m.extendTimeout(wait)

	result, err := m.Node.Stop(ctx, unit, wait)
	if err != nil {
		return fmt.Errorf("stopping %s: %w", unit, err)
	}

	if u, err = m.Node.Look(ctx, unit); err != nil {
		return fmt.Errorf("looking at %s: %w", unit, err)
	}

	if isAlive(u) {
		return fmt.Errorf("%s did not stop (job: %s; it is %s/%s)", unit, result, u.Active, u.Sub)
	}

	m.note("stop", "ok", "%s", unit)

	return nil
}

// publish puts every file of this process's commit in place.
func (m *StateMachine) publish(h location, t *walkState) error {
	gen := h.journal.Gen
	m.note("publish", "started", "generation %d", gen)

	if err := t.txn.Publish(); err != nil {
		m.note("publish", "failed", "%v", err)
		return wrapAfterCommit(fmt.Sprintf("putting generation %d in place", gen), err)
	}

	t.reload = t.Change.Reload
	t.reloadKnown = true

	m.note("publish", "ok", "generation %d is in place", gen)

	return nil
}

// complete puts every file of an interrupted commit or rollback in place.
func (m *StateMachine) complete(t *walkState) error {
	if _, err := m.Store.Recover(); err != nil {
		m.note("recover", "failed", "%v", err)
		return err
	}

	t.recovered = true

	m.note("recover", "ok", "every file is in place")

	return nil
}

// restore puts the contents of an earlier generation in place, as a new generation that awaits a verdict.
func (m *StateMachine) restore(h location, t *walkState) error {
	w := h.rollback

	blobs, err := m.BlobsOfGoal(w.from, w.to)
	if err != nil {
		return err
	}
	gen, err := m.Store.RollbackToJudge(w.from, w.to, w.reason, w.hold, blobs, w.removeFiles...)
	if err != nil {
		m.note("rollback", "failed", "%v", err)
		return fmt.Errorf("rolling back from generation %d to %d: %w", w.from, w.to, err)
	}

	for _, why := range w.warnings {
		m.note("rollback", "notice", "%s", why)
	}
	t.unwritten = append(t.unwritten, w.warnings...)

	t.rollback = w
	t.out = leftOutcome(w.from, gen, w.reason, Pending, w.hold)
	t.out.AsBefore = w.to == 0

	spec, err := m.SpecOf(gen)
	if err != nil {
		return wrapAfterCommit("rolling back", err)
	}

	t.reload = h.spec.UnitFiles || spec.UnitFiles
	t.reloadKnown = true

	m.note("rollback", "ok", "generation %d is in place; it has the contents of generation %d", gen, w.to)

	return nil
}

// reload makes systemd read its unit files, if one changed, before a kubelet may start.
func (m *StateMachine) reload(ctx context.Context, h location, t *walkState) error {
	if !m.needsReload(ctx, h, t) {
		return nil
	}

	m.note("reload", "started", "a unit file changed")

	err := m.Node.Reload(ctx)

	switch {
	case err != nil && h.phase == mixed && h.noneStarted: // as in stop; the process that opens the gate reloads
		return nil
	case err != nil && h.phase == returning:
		return wrapAfterCommit("rolling back", err)
	case err != nil:
		return wrapAfterCommit(
			fmt.Sprintf("generation %d is in place; systemd did not read its unit files", h.journal.Gen),
			err,
		)
	}

	t.reload = false
	t.reloadKnown = true

	m.note("reload", "ok", "systemd read its unit files again")

	return nil
}

// needsReload reports whether systemd has not read a changed unit file. If a killed process has changed it, systemd
// reports that. Some versions of systemd overlook the first drop-in in a new folder, so the specs are checked too. At
// boot systemd reads all unit files. An error of systemd is left to the step that starts the unit.
func (m *StateMachine) needsReload(ctx context.Context, h location, t *walkState) bool {
	if h.gateOpen && h.phase != mixed { // of a mixture the gate was shut since
		return false
	}

	mayBeUnread := !t.reloadKnown && (t.recovered || !h.newBoot)
	if t.reload || mayBeUnread && m.hasUnitFiles(h) {
		return true
	}

	u, err := m.Node.Look(ctx, h.spec.Unit)

	return err == nil && u.Unread
}

// hasUnitFiles reports whether the generation in place has unit files, or the one before a rollback had.
func (m *StateMachine) hasUnitFiles(h location) bool {
	return h.spec.UnitFiles || h.journal.From != 0 && m.specOrDefault(h.journal.From).UnitFiles
}

// openGate lets the kubelet start on the complete generation in place.
func (m *StateMachine) openGate(h location, t *walkState) error {
	gen := 0
	if h.current != nil {
		gen = h.current.Gen
	}

	isOpen := h.gateOpen && (h.gate == gen || h.gate < 0)
	err := m.Gate.SetPending(h.journal != nil)
	if err == nil && !isOpen {
		err = m.Gate.Open(gen)
	}
	if err != nil {
		if h.journal != nil {
			return wrapAfterCommit(describeInPlace(&h), err)
		}

		return err
	}
	if isOpen {
		return nil
	}

	t.openedGate = !h.gateOpen // else only the number of the generation was another: it was recorded

	m.Node.Note(report.Event{
		Stage:      "gate",
		State:      report.OK,
		Summary:    fmt.Sprintf("open on generation %d", gen),
		Generation: gen,
	})

	return nil
}

// requestStart requests a start of the unit if one is due, and leaves a verdict to prelet-verify or the next run.
func (m *StateMachine) requestStart(ctx context.Context, h location, t *walkState) error {
	if h.journal == nil && !t.openedGate && !m.Gate.IsOwed(h.spec.Unit) {
		return nil
	}
	_, err := m.bringUp(ctx, h, t, 0)
	if h.journal == nil {
		return systemdFault("the gate is open; bringing the kubelet up", err)
	}
	if t.rollback == nil {
		t.out.Verdict = Pending
	}

	return wrapAfterCommit(describeInPlace(&h), err)
}

// recorded is a generation whose files were there before it: a kubelet that runs may have started before them, and is
// restarted once then.
type recorded struct {
	key   string // of the commit
	flags []string
	files []string // that the kubelet reads
}

// recorded returns the input of bringUp for the generation that awaits its verdict; nil if none does, or if prelet has
// put it in place, or before this boot.
func (h location) recorded() *recorded {
	if h.journal == nil || h.current == nil || h.journal.CommitMono != 0 {
		return nil
	}

	a := &recorded{
		key:   fmt.Sprintf("%d %d recorded", h.journal.Gen, h.journal.CommitTime.UnixNano()),
		flags: h.spec.Flags,
	}

	for path := range h.spec.Files {
		if !slices.Contains(h.spec.Others, path) {
			a.files = append(a.files, path)
		}
	}

	return a
}

// ageMargin is how much younger than the process a file has to be. Both ages are read one after the other.
const ageMargin = time.Second

// isOlder reports whether the process of an active unit has not read the files of a generation that was recorded: a
// file was changed after the process started, or the process lacks a flag. A process that was restarted for that
// reason is not older.
func (m *StateMachine) isOlder(ctx context.Context, u Unit, a *recorded) bool {
	if a == nil || u.Active != "active" || m.Gate.IsDone(a.key) {
		return false
	}

	ago, ok := m.Node.ChangedAgo(a.files)
	if ok && m.Node.Monotonic()-u.Started > ago+ageMargin {
		return true
	}

	if len(a.flags) == 0 {
		return false
	}

	err := m.Node.Flags(ctx, u.MainPID, a.flags)

	return err != nil && !isUnknown(err)
}

// bringUp requests a start of the unit if that is owed, if the gate blocked it, or if the running process has not read
// the files. It waits for the start, for which the lock must be free; with 0 the start is only requested. It returns
// how the job ended; "" when none was requested, because the unit runs, is about to run, or is not supposed to run.
func (m *StateMachine) bringUp(
	ctx context.Context, h location, t *walkState, wait time.Duration,
) (result string, err error) {
	steady := context.WithoutCancel(ctx)
	unit := h.spec.Unit
	files := h.recorded()

	u, err := m.Node.Look(steady, unit)
	if err != nil {
		return "", fmt.Errorf("looking at %s: %w", unit, err)
	}

	old := u.Started < h.since // it has not read the files
	waits := isWaitingToRestart(u) || hasGivenUp(u) || wasSkipped(u)
	waitsForFiles := waits && (t.openedGate || old)
	runsOldFiles := u.Active == "active" && old
	older := m.isOlder(steady, u, files)

	if !m.Gate.IsOwed(unit) && !waitsForFiles && !runsOldFiles && !older {
		return "", nil
	}

	m.note("restart", "started", "%s", unit)

	// Where systemd itself has started the unit since the gate is open, that start is waited for instead of another
	// one.
	verb := "restart"
	if isStarted(u) && !old && !older {
		verb = "start"
	}

	action := restartUnit
	if u.Active != "active" && !m.Gate.IsOwed(unit) {
		action = "start"
	}

	// A unit that prelet stopped has to start again, also after SIGTERM. Then the start is requested and not waited
	// for.
	if wait > 0 && ctx.Err() == nil {
		m.extendTimeout(wait)
		result, err = m.Node.Act(ctx, verb, unit, wait)
	}

	if wait == 0 || ctx.Err() != nil {
		result, err = m.Node.Act(steady, verb, unit, 0)
	}

	if err != nil {
		return result, fmt.Errorf("restarting %s: %w", unit, err)
	}

	t.addAct(unit, action)

	if older {
		if err := m.Gate.MarkDone(files.key); err != nil {
			return result, err
		}
	}

	if result != jobDependency { // the start never happened: it is still owed
		if err := m.Gate.ClearOwed(); err != nil {
			return result, err
		}
	}

	state := "ok"
	if result != jobDone && result != jobQueued {
		state = "notice"
	}

	m.note("restart", state, "%s: %s", unit, result)

	return result, nil
}

// watchUnlocked starts the unit on the generation in place and watches it, with the lock free. It returns the trigger
// of the verdict, or onSuperseded.
func (m *StateMachine) watchUnlocked(ctx context.Context, h location, t *walkState) (Trigger, error) {
	m.startBound(t, h.spec)
	t.watchedJournal = h.journal
	t.firstWatched = cmp.Or(t.firstWatched, h.journal.Gen)

	var watched error

	err := m.runUnlocked(ctx, func() {
		t.judged, watched = m.start(ctx, h, t)
	})
	if err != nil {
		return done, err
	}

	current, err := m.Store.Current()
	if err != nil {
		return done, err
	}

	now, err := m.Store.Journal()
	switch {
	case err != nil:
		return done, err
	case current == nil || current.Gen < h.journal.Gen:
		lost := *h.journal
		lost.HoldPlan = "" // it went with the journal
		h.journal = &lost
		t.judged = Judgement{
			Verdict: Unknown,
			Why:     "it was removed while it was watched: the next run makes a generation of its files",
		}
		t.out = describeVerdict(onUnknown, h, t.judged)

		return done, nil
	case !h.journal.Same(now):
		t.rounds++

		m.note("verify", "notice", "another run took over while generation %d was watched", h.journal.Gen)

		return onSuperseded, nil
	case watched != nil:
		return done, wrapAfterCommit(fmt.Sprintf("generation %d could not be judged", h.journal.Gen), watched)
	case t.judged.Verdict == Good:
		return onGood, nil
	case t.judged.Verdict == Bad:
		return onBad, nil
	}

	return onUnknown, nil
}

// runUnlocked runs a function that must not hold the lock: a start of the kubelet waits for prelet.service, which waits
// for the lock. The lock is taken again also when ctx has ended, because a verdict has to be written. Others hold it
// only for a moment.
func (m *StateMachine) runUnlocked(ctx context.Context, do func()) error {
	if err := m.Store.Unlock(); err != nil {
		return err
	}

	do()

	return m.relock(ctx)
}

func (m *StateMachine) relock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()

	return m.Store.Relock(ctx)
}

// start brings the unit up and watches it, both within the spec's timeout. If the clock was set during the watch, it is
// repeated once: a kubelet that hangs is not started again, and nothing else would judge it in this boot. The lock is
// free.
func (m *StateMachine) start(ctx context.Context, h location, t *walkState) (Judgement, error) {
	f, err := m.startOnce(ctx, h, t)
	if err == nil && f.clockSet {
		f, err = m.startOnce(ctx, h, t)
	}
	if err == nil && f.Verdict == Good {
		f.Checks = m.reconcile(ctx, h.spec, f.Checks)
	}

	return f, err
}

func (m *StateMachine) startOnce(ctx context.Context, h location, t *walkState) (Judgement, error) {
	wait := m.limitWait(t, h.spec.Timeout(), 0)
	deadline := m.Node.Monotonic() + wait

	result, err := m.bringUp(ctx, h, t, wait)
	if err != nil {
		return Judgement{}, err
	}

	return m.watch(ctx, h, deadline, result, wait >= h.spec.Timeout()-minStopWait)
}

// endUnjudged notes that the verification of this boot ended without a verdict. After SIGTERM it returns
// fault.Interrupted.
func (m *StateMachine) endUnjudged(ctx context.Context, h location, t *walkState) error {
	m.uncountTry(t)

	if ctx.Err() == nil {
		return nil
	}

	stopped := &fault.Fault{
		Code:    fault.Interrupted,
		Err:     context.Cause(ctx),
		Next:    "the next start of the kubelet, run or boot judges it",
		Summary: fmt.Sprintf("stopped while generation %d was watched", h.journal.Gen),
	}
	if h.phase == returning {
		stopped.Summary += ", after a rollback"
	}

	return stopped
}

// endVerdict returns the error of storing a verdict. If the store cannot be written, the walk ends without a verdict
// instead: a unit that failed would be repeated each second. The next start of the kubelet judges again.
func (m *StateMachine) endVerdict(h location, t *walkState, err error) error {
	if fault.CodeOf(err) != fault.CannotWrite {
		return wrapAfterCommit("writing down the verdict", err)
	}

	why := fmt.Sprintf("the verdict is %s, and cannot be stored: %v", t.judged.Verdict, err)
	t.judged.Verdict = Unknown
	t.judged.Why = why
	t.out = describeVerdict(onUnknown, h, t.judged)
	m.uncountTry(t)

	return nil
}

// retire removes those files of the spec that the generation has: after a rollback an older generation may not have
// them. It runs before the journal is closed, because it is not repeated after that.
func (m *StateMachine) retire(h location) error {
	var paths []string

	for _, entry := range h.current.Entries {
		if slices.Contains(h.spec.Retire, entry.Path) && entry.New.Kind == generation.File &&
			!entry.Dropped {
			paths = append(paths, entry.Path)
		}
	}

	if len(paths) == 0 {
		return nil
	}

	return m.Store.Retire(h.current.Gen, paths...)
}

func (m *StateMachine) closeGood(h location, t *walkState) error {
	if t.judged.Verdict != Good { // old generations could not be removed
		return nil
	}

	text, err := json.Marshal(judgedReport{
		Verdict: Good,
		Checks:  t.judged.Checks,
		Time:    m.Node.Now().UTC(),
		BootID:  m.BootID,
		Since:   h.since.Microseconds(),
	})
	if err != nil {
		return err
	}

	if err := m.Store.Good(h.journal.Gen, text); err != nil {
		return err
	}

	return m.Gate.SetPending(false)
}

// whyShut returns the stored reason of the gate, or a default.
func (m *StateMachine) whyShut(ctx context.Context, h location) string {
	if why := cmp.Or(m.Gate.Reason(), m.WhyLost(ctx)); why != "" {
		return why
	}

	if h.current == nil {
		return "prelet has not finished a run"
	}

	return "prelet has not finished a run in this boot"
}

// reportOther reports the verdict of another process, if that is about the generation that this process watched, or
// about the rollback from it.
func (m *StateMachine) reportOther(h location, t *walkState) {
	current, watched := h.current, t.watchedJournal
	isGood := current.Status == generation.StatusGood
	isOfSite := current.Restores < 0
	isSame := current.Gen == watched.Gen

	from, why := watched.From, watched.Why
	if !isSame {
		from, why = watched.Gen, "another run rolled back"
	}
	left, ok := m.Store.Info(from)
	_, isHeld := m.Store.Held(left.PlanID)
	isHeld = ok && isHeld

	switch {
	case isOfSite && !isGood:
		t.out = Outcome{Judgement: Judgement{Verdict: Pending, Why: "another run took over"}, Generation: current.Gen}
	case isOfSite, isGood && isSame && watched.HoldPlan == "", isGood && !isSame && !isHeld:
		// With a rollback by hand, the plan that was left is not at fault.
		t.out = Outcome{Judgement: Judgement{Verdict: Good}, Generation: current.Gen}
	case isGood:
		t.out = leftOutcome(from, current.Gen, why, Good, isHeld)
	default:
		t.out = leftOutcome(from, current.Gen, why, Bad, isHeld)
		t.out.Code = fault.RollbackFails
	}
	t.out.AsBefore = current.Restores == 0
}
