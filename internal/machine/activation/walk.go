package activation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
)

// walkState is one walk through the table: its input, and what this process has done so far. A crash loses all of it,
// and the next walk does not need it.
type walkState struct {
	Entry

	txn            *generation.Txn     // the change that this process has staged
	committed      bool                // the journal has the change, or may have it: from here on only forward
	reload         bool                // this process changed a unit file, and systemd has not read it
	reloadKnown    bool                // reload is certain: this process published, or systemd has read the files
	recovered      bool                // this process finished an interrupted change
	openedGate     bool                // this process opened the gate
	rollback       *rollback           // the rollback of this process
	deadline       time.Duration       // of the whole activation; 0: none
	rounds         int                 // how often others took over
	watchedJournal *generation.Journal // of the last watch
	firstWatched   int                 // generation of the first watch; 0: none
	judged         Judgement           // of the last watch
	acted          []Act               // see Outcome
	trouble        []string            // what follows a changed file and did not work, and does not undo the generation

	unwritten []string // what could not be written, and is not a reason to keep the kubelet down

	sinceJournal *generation.Journal // the journal that since belongs to
	since        time.Duration

	out Outcome
}

// maxRows bounds a walk. The longest known walk has four rows for each of maxRounds, and about twelve more.
const maxRows = 50

// walk goes through the table until nothing follows. The lock is held, except during the step watch.
//
// Each row begins with reading where the node is, so an interrupted row needs no memory of it.
func (m *StateMachine) walk(ctx context.Context, t *walkState, on Trigger) (Outcome, error) {
	for range maxRows {
		h, err := m.locate(t, on)
		if err == nil {
			on, err = m.takeRow(ctx, pass{h, m, t})
		}

		if err != nil || on == done {
			return t.outcome(), t.wrapUnfinished(h, h.on, err)
		}
	}

	return t.out, fault.Internal.Errorf("activation did not end after %d rows", maxRows)
}

// wrapUnfinished returns an error of a walk, which must not promise that nothing was changed once this process has
// committed, or while a change of another process is not finished. A change or a rollback that is refused in such a
// phase keeps its code: it has changed nothing, and the phase is as before.
func (t *walkState) wrapUnfinished(h location, on Trigger, err error) error {
	refused := on == OnChange || on == OnRollback && h.phase != mixed

	switch {
	case err == nil || !promisesUnchanged(err):
		return err
	case t.committed && h.journal == nil:
		return wrapAfterCommit(fmt.Sprintf("generation %d is committed", t.out.Generation), err)
	case t.committed, h.journal != nil && !refused:
		return wrapAfterCommit(fmt.Sprintf("generation %d awaits its verdict", h.journal.Gen), err)
	}

	return err
}

// table returns the table, or the broken one of a test.
func (m *StateMachine) table() []row {
	if m.rows != nil {
		return m.rows
	}

	return table
}

// takeRow finds the row for a location, reads the facts that its steps need, and returns the trigger that follows.
func (m *StateMachine) takeRow(ctx context.Context, p pass) (Trigger, error) {
	holds := func(f fact) (bool, error) { return f(ctx, &p) }

	r, err := next(m.table(), p.phase, p.on, holds)
	if err == nil && r.Reads != nil {
		_, err = holds(r.Reads)
	}
	if err != nil {
		return done, err
	}

	return m.do(ctx, r, p.on, p.location, p.t)
}

// do runs one row and returns the next trigger. Only do changes anything.
func (m *StateMachine) do(ctx context.Context, r row, on Trigger, h location, t *walkState) (Trigger, error) {
	if r.Never != "" {
		return done, fault.Internal.Errorf("%s", r.Never)
	}

	if m.onRow != nil {
		m.onRow(r)
	}

	t.beginOutcome(on, h)

	then := r.Then
	if then == repeat {
		then = on
	}

	for _, s := range r.Do {
		m.runHook(s, false)

		found, err := m.step(ctx, s, on, h, t)
		if err != nil {
			return done, err
		}

		if r.Then == stepResult {
			then = found
		}

		m.runHook(s, true)
	}

	return then, nil
}

// runHook lets a test end the process before or after a step.
func (m *StateMachine) runHook(s step, after bool) {
	if m.hook != nil {
		m.hook(s, after)
	}
}

// beginOutcome sets the outcome at the begin of a row.
func (t *walkState) beginOutcome(on Trigger, h location) {
	switch on {
	case OnResume, OnUnchanged, OnFailed, OnNoSite, OnOff, OnVerify:
		if t.rollback == nil && h.current != nil {
			t.out.Generation = h.current.Gen
		}
	case onGood, onBad, onUnknown:
		t.out = describeVerdict(on, h, t.judged)
	}
}

// addAct notes a job of a unit, once.
func (t *walkState) addAct(unit, action string) {
	if a := (Act{Unit: unit, Action: strings.TrimPrefix(action, "try-")}); !slices.Contains(t.acted, a) {
		t.acted = append(t.acted, a)
	}
}

// outcome returns the outcome of the whole walk. It keeps the cause of a rollback also after the verdict on the
// rollback.
func (t *walkState) outcome() Outcome {
	if t.rollback != nil && t.out.From == t.rollback.from {
		t.out.Cause = t.rollback.cause
	}

	t.out.Overtaken = t.rounds > 0 && t.rollback == nil && t.out.Generation != t.firstWatched
	t.out.Trouble = t.trouble
	t.out.Acted = t.acted
	t.out.Unwritten = t.unwritten

	return t.out
}

// filesSince returns when the files of a journal were in place, on this boot's monotonic clock, as it was before this
// boot was counted as a try. It is 0 when that was in an earlier boot: every process of this boot started later.
func (t *walkState) filesSince(m *StateMachine, j *generation.Journal) time.Duration {
	if j == nil {
		return 0
	}

	if t.sinceJournal == nil || !t.sinceJournal.Same(j) {
		t.sinceJournal = j
		t.since = 0
		if j.BootID == m.BootID {
			t.since = time.Duration(j.CommitMono) * time.Microsecond
		}
	}

	return t.since
}

// describeVerdict returns the outcome of a verdict. It is pure.
func describeVerdict(on Trigger, h location, f Judgement) Outcome {
	if h.phase == returning {
		return describeVerdictBack(on, h.journal, f)
	}

	out := Outcome{Judgement: f, Generation: h.journal.Gen}
	if on == onBad {
		out.Code = fault.RolledBack
	}

	if on == onUnknown && slices.ContainsFunc(f.Checks, CheckResult.isOtherMachine) {
		out.Code = fault.OtherMachine
	}

	if h.stayReason != "" {
		out.Why += "; " + h.stayReason
	}

	return out
}

// describeVerdictBack returns the outcome of a verdict after a rollback. The plan that was rolled back is held if the
// node is healthy without it, and counts as held until that verdict.
func describeVerdictBack(on Trigger, j *generation.Journal, f Judgement) Outcome {
	out := leftOutcome(j.From, j.Gen, j.Why, f.Verdict, j.HoldPlan != "")
	out.AsBefore = j.To == 0
	out.Checks = f.Checks

	switch {
	case on == onGood && j.HoldPlan == "": // a requested rollback that is healthy
		return Outcome{Judgement: Judgement{Verdict: Good, Checks: f.Checks}, Generation: j.Gen}
	case on == onBad:
		out.Held = false
		out.Code = fault.RollbackFails
		out.Why += fmt.Sprintf(
			"; after the rollback it is unhealthy as well (%s), so the plan is not the cause and is not held",
			f.Why,
		)
	case on == onUnknown:
		out.Verdict = Unknown
		out.Held = false
		out.Why += fmt.Sprintf(
			"; after the rollback no verdict was reached (%s): the next start of the kubelet, run or boot judges",
			f.Why,
		)

		if j.HoldPlan != "" {
			out.Why += ", and the plan is not tried again before that"
		}
	}

	return out
}

// leftOutcome returns the outcome of a rollback from an unhealthy generation. inPlace is the verdict on the generation
// that has the contents of a good one.
func leftOutcome(from, gen int, why string, inPlace Verdict, isHeld bool) Outcome {
	return Outcome{
		Judgement:  Judgement{Verdict: Bad, Why: why},
		Generation: gen,
		From:       from,
		InPlace:    inPlace,
		Held:       isHeld,
		Code:       fault.RolledBack,
	}
}

// startBound sets the deadline of an activation, unless it is set already. No wait ends after it.
func (m *StateMachine) startBound(t *walkState, p Spec) {
	if t.deadline == 0 && p.BoundMillis > 0 {
		t.deadline = m.Node.Monotonic() + p.bound()
	}
}

// limitWait shortens a wait to the time left until the deadline, but not below least.
func (m *StateMachine) limitWait(t *walkState, d, least time.Duration) time.Duration {
	if t.deadline == 0 {
		return d
	}

	return min(d, max(least, t.deadline-m.Node.Monotonic()))
}
