package activate

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// walkState is one walk through the table: what it came for, and what this process did on the way. After a crash all of it
// is gone, and the next walk does without.
type walkState struct {
	change  *Change // of onChange
	to      int     // of onBack
	why     string  // of onBack
	failure string  // of onFailed and onNoSite

	committing     bool                // the change is the store's: it is no longer ours to abort
	reload         bool                // we changed a unit file, and systemd has not read it
	reloadKnown    bool                // reload is all there is to say: we put it in place, or systemd has read it
	recovered      bool                // we finished what a crash left
	openedGate     bool                // we opened the gate
	rollback       *rollback           // we went back by it
	deadline       time.Duration       // when all shall have ended; 0: nobody said
	rounds         int                 // others took over so often
	watchedJournal *generation.Journal // what was watched last
	finding        finding             // and what came of it

	sinceJournal *generation.Journal // what since is about
	since        time.Duration

	out Outcome
}

// maxRows bounds a walk. The longest that is known has maxRounds times four rows and a dozen besides.
const maxRows = 50

// walk goes through the table until nothing follows. The lock is held, but for the step watch.
//
// Each row begins with a look at where the node is, so that a row that was interrupted needs nobody who remembers it.
func (m *Machine) walk(ctx context.Context, t *walkState, on trigger) (Outcome, error) {
	for range maxRows {
		h, err := m.locate(ctx, t, on)
		if err != nil {
			return t.out, err
		}

		on, err = m.do(ctx, next(m.table(), h, on), on, h, t)
		if err != nil || on == done {
			return t.outcome(), err
		}
	}

	return t.out, &fault.Fault{Code: fault.Internal, Summary: fmt.Sprintf("activation did not end after %d rows", maxRows)}
}

// table is the table, or another that a test wants to fail.
func (m *Machine) table() []row {
	if m.rows != nil {
		return m.rows
	}

	return table
}

// do does one row, and says what follows. It is the only place that acts.
func (m *Machine) do(ctx context.Context, r row, on trigger, h location, t *walkState) (trigger, error) {
	if r.Never != "" {
		return done, &fault.Fault{Code: fault.Internal, Summary: r.Never}
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

// runHook is for tests, which end the process there.
func (m *Machine) runHook(s step, after bool) {
	if m.hook != nil {
		m.hook(s, after)
	}
}

// enter begins the outcome of a row.
func (t *walkState) beginOutcome(on trigger, h location) {
	switch on {
	case onResume, onFailed, onNoSite, onVerify:
		if t.rollback == nil && h.current != nil {
			t.out.Generation = h.current.Gen
		}
	case onGood, onBad, onUnknown:
		t.out = describeVerdict(on, h, t.finding)
	}
}

// outcome is that of the whole walk. The kubelet's word on what was left is kept, when the way back was judged.
func (t *walkState) outcome() Outcome {
	if t.rollback != nil && t.out.From == t.rollback.from {
		t.out.Cause = t.rollback.cause
	}

	return t.out
}

// sinceOf is the time since when a journal's files are in place on this boot's monotonic clock, as it was before this
// boot was counted as a try: 0 when that was in an earlier boot, for then every process of this one started later.
func (t *walkState) filesSince(m *Machine, j *generation.Journal) time.Duration {
	if j == nil {
		return 0
	}

	if t.sinceJournal == nil || !t.sinceJournal.Same(j) {
		t.sinceJournal, t.since = j, 0
		if j.BootID == m.BootID {
			t.since = time.Duration(j.CommitMono) * time.Microsecond
		}
	}

	return t.since
}

// describeVerdict is what is said of a verdict. It is pure.
func describeVerdict(on trigger, h location, f finding) Outcome {
	if h.phase == returning {
		return describeVerdictBack(on, h.journal, f)
	}

	out := Outcome{Verdict: f.verdict, Why: f.reason, Checks: f.checks, Cause: f.cause, Generation: h.journal.Gen}
	if on == onBad {
		out.Code = fault.RolledBack
	}

	if h.stayReason != "" {
		out.Why += "; " + h.stayReason
	}

	return out
}

// describeVerdictBack is what is said of a verdict on what the node went back to. The plan that was left is held if the node is
// well on that, and counts as held until then.
func describeVerdictBack(on trigger, j *generation.Journal, f finding) Outcome {
	out := Outcome{
		Verdict: Bad, Why: j.Why, Checks: f.checks, Generation: j.Gen, From: j.From, InPlace: f.verdict,
		Held: j.HoldPlan != "", Code: fault.RolledBack,
	}

	switch {
	case on == onGood && j.HoldPlan == "": // it was asked for, and came up well
		return Outcome{Verdict: Good, Checks: f.checks, Generation: j.Gen}
	case on == onBad:
		out.Held, out.Code = false, fault.RollbackFails
		out.Why += fmt.Sprintf("; after going back it is ill as well (%s), so the plan is not at fault and not held", f.reason)
	case on == onUnknown:
		out.Verdict, out.Held = Unknown, false
		out.Why += fmt.Sprintf(
			"; after going back no verdict was reached (%s): the next start of the kubelet, run or boot judges", f.reason,
		)

		if j.HoldPlan != "" {
			out.Why += ", and the plan is not tried again before that"
		}
	}

	return out
}

// startBound begins an activation, unless one is going on: from now on no wait lasts longer than the plan's startBound.
func (m *Machine) startBound(t *walkState, p Plan) {
	if t.deadline == 0 && p.Bound > 0 {
		t.deadline = m.Clock.Monotonic() + p.Bound
	}
}

// limitWait cuts a wait to what is left of the activation's bound, but not below least.
func (m *Machine) limitWait(t *walkState, d, least time.Duration) time.Duration {
	if t.deadline == 0 {
		return d
	}

	return min(d, max(least, t.deadline-m.Clock.Monotonic()))
}
