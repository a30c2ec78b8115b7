package activate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// maxTries is the number of boots that may begin to verify a generation and not come to an end. The next one goes back.
const maxTries = 3

// maxRounds bounds how often a verdict may be superseded before we leave the last word to whoever supersedes us.
const maxRounds = 5

// planOf is the plan of a generation. One that was made by going back has the plan of the one whose contents it has.
func (m *Machine) planOf(gen int) (Plan, error) {
	all, err := m.Store.List()
	if err != nil {
		return Plan{}, err
	}
	for _, info := range all {
		if info.Gen == gen && info.Restores == 0 { // as before prelet: nothing was planned, so only that it runs can be asked
			plan, err := m.planBefore(all)
			return plan.before(), err
		}
	}
	return m.readPlan(gen)
}

func (m *Machine) readPlan(gen int) (Plan, error) {
	text, err := m.Store.Blob(gen, PlanBlob)
	if err != nil {
		return Plan{}, fmt.Errorf("the plan of generation %d: %w", gen, err)
	}
	plan, err := DecodePlan(text)
	if err != nil {
		return Plan{}, fmt.Errorf("the plan of generation %d: %w", gen, err)
	}
	return plan, nil
}

// planBefore is the newest plan that there is: of what was before prelet, only that can tell the unit and its health address.
func (m *Machine) planBefore(all []generation.Info) (Plan, error) {
	for _, info := range slices.Backward(all) {
		if info.Restores != 0 && info.Status != generation.StatusDamaged {
			return m.readPlan(info.Gen)
		}
	}
	return Plan{}.withDefaults(), nil
}

// inPlace is the time since when a generation's files are in place on this boot's monotonic clock: 0 when that was in an
// earlier boot, for then every process of this one started later.
func (m *Machine) inPlace(j *generation.Journal) time.Duration {
	if j.BootID != m.BootID {
		return 0
	}
	return time.Duration(j.CommitMono) * time.Microsecond
}

// judge brings the unit up on the generation that the journal is about, watches it without the lock, and acts on the verdict.
// It must not be called where a start may not be waited for.
// opened says that the gate was opened just now.
func (m *Machine) judge(ctx context.Context, j *generation.Journal, opened bool) (Outcome, error) {
	for range maxRounds {
		plan, err := m.planOf(j.Gen)
		if err != nil {
			return Outcome{}, err
		}
		defer m.bounded(plan)()
		since := m.inPlace(j)
		// A boot is a try from here on until it comes to an end.
		if _, err := m.beginTry(j); err != nil {
			return Outcome{}, afterCommit("counting the try", err)
		}
		if err := m.Store.Unlock(); err != nil {
			return Outcome{}, err
		}
		found, watched := m.start(ctx, plan, since, opened)
		if err := m.relock(ctx); err != nil {
			return Outcome{}, err
		}
		now, err := m.Store.Journal()
		if err != nil {
			return Outcome{}, err
		}
		if !j.Same(now) {
			m.note("verify", "notice", "another run took over while generation %d was watched", j.Gen)
			if now, err = m.Recover(ctx); err != nil {
				return Outcome{}, err
			}
			if now == nil {
				return m.settled(j)
			}
			j = now
			continue
		}
		if watched != nil {
			return Outcome{}, afterCommit(fmt.Sprintf("generation %d could not be judged", j.Gen), watched)
		}
		return m.act(ctx, j, plan, found)
	}
	return Outcome{Verdict: Pending, Generation: j.Gen, Why: "other runs keep taking over; the last of them judges"}, nil
}

// start brings the unit up and watches it, both within the plan's timeout. The lock is free.
func (m *Machine) start(ctx context.Context, plan Plan, since time.Duration, opened bool) (finding, error) {
	wait := m.within(plan.Timeout, 0)
	deadline := m.Clock.Monotonic() + wait
	result, err := m.bringUp(ctx, plan.Unit, errand{mayWait: true, wait: wait, opened: opened, since: since})
	if err != nil {
		return finding{}, err
	}
	f, err := m.watch(ctx, plan, since, deadline, result, wait >= plan.Timeout-leastStop)
	if err == nil && f.verdict == Good {
		f.checks = m.reconcile(ctx, plan, f.checks)
	}
	return f, err
}

// settled is the outcome of somebody else's verdict, where that was about what we watched, or about what they went back to from it.
func (m *Machine) settled(watched *generation.Journal) (Outcome, error) {
	current, err := m.Store.Current()
	if err != nil || current == nil {
		return Outcome{}, err
	}
	good := current.Status == generation.StatusGood
	switch {
	case current.Restores < 0 && !good:
		return Outcome{Generation: current.Gen, Verdict: Pending, Why: "another run took over"}, nil
	case current.Restores < 0, good && current.Gen == watched.Gen && watched.HoldPlan == "": // gone back to by hand
		return Outcome{Generation: current.Gen, Verdict: Good}, nil
	}
	out := Outcome{Verdict: Bad, Why: watched.Why, Generation: current.Gen, From: watched.From, InPlace: Good, Code: fault.RolledBack}
	if current.Gen != watched.Gen {
		out.From, out.Why = watched.Gen, "another run went back"
	}
	if !good {
		out.InPlace, out.Code = Bad, fault.RollbackFails
	}
	all, err := m.Store.List()
	for _, info := range all {
		if info.Gen == out.From {
			_, out.Held = m.Store.Held(info.PlanID)
		}
	}
	return out, err
}

// act does what the verdict asks for. The lock is held, and the journal is still the one that was judged.
func (m *Machine) act(ctx context.Context, j *generation.Journal, plan Plan, f finding) (Outcome, error) {
	if j.From != 0 {
		return m.afterBack(ctx, j, plan, f)
	}
	out := Outcome{Verdict: f.verdict, Why: f.why, Checks: f.checks, Cause: f.cause, Generation: j.Gen}
	switch f.verdict {
	case Good:
		if err := m.good(j.Gen, plan, f.checks, m.inPlace(j)); err != nil {
			return out, afterCommit(fmt.Sprintf("writing down that generation %d is good", j.Gen), err)
		}
		return out, nil
	case Unknown:
		if err := m.dropTry(j); err != nil {
			return out, afterCommit("taking the try back", err)
		}
		if ctx.Err() != nil {
			return out, &fault.Fault{Code: fault.Interrupted, Summary: fmt.Sprintf("stopped while generation %d was watched", j.Gen), Err: context.Cause(ctx),
				Next: "the next start of the kubelet, run or boot judges it"}
		}
		return out, nil
	}
	to, some := m.lastGood()
	same := false
	if some && f.pods {
		goal, err := m.goal(plan, to)
		if err != nil {
			return out, afterCommit("going back", err)
		}
		same = plan.inherited(goal)
	}
	if !some || !plan.Rollback || same {
		out.Code = fault.RolledBack
		switch {
		case !some:
			out.Why += "; there is nothing good to go back to, so the generation stays and each boot verifies it again"
		case same:
			out.Why += "; the generation before has the same, so this one is not at fault: it stays, and is verified again"
		default:
			out.Why += "; the site says rollback = false, so the generation stays"
		}
		return out, nil
	}
	may, err := m.Units.MayWait(ctx, plan.Unit)
	if err != nil {
		return out, afterCommit("going back", err)
	}
	return m.goBack(ctx, back{from: j.Gen, to: to, why: f.why, cause: f.cause, mayWait: may, hold: true})
}

// good writes down that a generation, which is in place, is good.
func (m *Machine) good(gen int, plan Plan, checks []Check, since time.Duration) error {
	report, err := json.Marshal(verdictReport{Good, checks, m.Clock.Now().UTC(), m.BootID, since.Microseconds()})
	if err != nil {
		return err
	}
	// Retired first: once the journal is closed nobody looks again.
	if retire, err := m.retirable(gen, plan.Retire); err != nil {
		return err
	} else if len(retire) > 0 {
		if err := m.Store.Retire(gen, retire...); err != nil {
			return err
		}
	}
	return m.Store.Good(gen, report)
}

// retirable are those files that the generation has: one that went back to an older one has not what retired there.
func (m *Machine) retirable(gen int, paths []string) (out []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	current, err := m.Store.Current()
	if err != nil || current == nil || current.Gen != gen {
		return nil, err
	}
	for _, entry := range current.Entries {
		if slices.Contains(paths, entry.Path) && entry.New.Kind == generation.File && !entry.Dropped {
			out = append(out, entry.Path)
		}
	}
	return out, nil
}

// back is a way back.
type back struct {
	from, to int // generations; 0 is as before prelet
	why      string
	cause    *Cause // of why, by the kubelet's word
	mayWait  bool   // a start may be waited for
	hold     bool   // the plan that is left, if it was at fault
}

// goal is the plan of what is gone back to from another.
func (m *Machine) goal(left Plan, to int) (Plan, error) {
	if to == 0 {
		return left.before(), nil
	}
	return m.planOf(to)
}

// goBack puts an earlier generation in place and brings the unit up on it. It awaits a verdict like any other: here, where that
// may be waited for, else by prelet-verify.
func (m *Machine) goBack(ctx context.Context, b back) (Outcome, error) {
	steady := context.WithoutCancel(ctx)
	left, err := m.planOf(b.from)
	if err != nil {
		return Outcome{}, err
	}
	goal, err := m.goal(left, b.to)
	if err != nil {
		return Outcome{}, err
	}
	defer m.bounded(left)()
	m.note("rollback", "started", "from generation %d to the contents of %d: %s", b.from, b.to, b.why)
	if err := m.keepOut(steady, left.Unit, fmt.Sprintf("going back from generation %d: %s", b.from, b.why)); err != nil {
		return Outcome{}, afterCommit("going back", err)
	}
	gen, err := m.Store.RollbackToJudge(b.from, b.to, b.why, b.hold, left.outlived(goal)...)
	if err != nil {
		m.note("rollback", "failed", "%v", err)
		return Outcome{}, fmt.Errorf("going back from generation %d to %d: %w", b.from, b.to, err)
	}
	out := Outcome{Verdict: Bad, Why: b.why, Cause: b.cause, Generation: gen, From: b.from, InPlace: Pending, Held: b.hold, Code: fault.RolledBack}
	plan, err := m.planOf(gen)
	if err != nil {
		return out, afterCommit("going back", err)
	}
	if left.UnitFiles || plan.UnitFiles {
		if err := m.reload(steady); err != nil {
			return out, afterCommit("going back", err)
		}
	}
	since := m.Clock.Monotonic()
	if err := m.open(gen); err != nil {
		return out, afterCommit("going back", err)
	}
	m.note("rollback", "ok", "generation %d is in place, with the contents of %d", gen, b.to)
	if !b.mayWait {
		_, err := m.bringUp(steady, plan.Unit, errand{opened: true, since: since})
		return out, afterCommit("going back", err)
	}
	j, err := m.Store.Journal()
	if err == nil && j == nil {
		err = errors.New("the journal does not say that it awaits a verdict")
	}
	if err != nil {
		return out, afterCommit("going back", err)
	}
	judged, err := m.judge(ctx, j, true)
	if judged.From == b.from {
		judged.Cause = b.cause
	}
	return judged, err
}

// afterBack acts on the verdict of what the node went back to. The plan that was left is held if the node is well on that, and
// counts as held until then.
func (m *Machine) afterBack(ctx context.Context, j *generation.Journal, plan Plan, f finding) (Outcome, error) {
	out := Outcome{Verdict: Bad, Why: j.Why, Checks: f.checks, Generation: j.Gen, From: j.From, InPlace: f.verdict, Held: j.HoldPlan != "", Code: fault.RolledBack}
	switch f.verdict {
	case Good:
		if err := m.good(j.Gen, plan, f.checks, m.inPlace(j)); err != nil {
			return out, afterCommit("writing down the verdict", err)
		}
		if j.HoldPlan == "" { // it was asked for, and came up well
			out = Outcome{Verdict: Good, Checks: f.checks, Generation: j.Gen}
		}
	case Bad:
		out.Held, out.Code = false, fault.RollbackFails
		out.Why += fmt.Sprintf("; after going back it is ill as well (%s), so the plan is not at fault and not held", f.why)
		if err := m.Store.Ill(j.Gen, f.why); err != nil {
			return out, afterCommit("writing down the verdict", err)
		}
	default:
		out.Verdict, out.Held = Unknown, false
		out.Why += fmt.Sprintf("; after going back no verdict was reached (%s): the next start of the kubelet, run or boot judges", f.why)
		if j.HoldPlan != "" {
			out.Why += ", and the plan is not tried again before that"
		}
		if err := m.dropTry(j); err != nil {
			return out, afterCommit("taking the try back", err)
		}
		if ctx.Err() != nil {
			return out, &fault.Fault{Code: fault.Interrupted, Summary: fmt.Sprintf("stopped while generation %d was watched, after going back", j.Gen), Err: context.Cause(ctx)}
		}
	}
	return out, nil
}

func (m *Machine) reload(ctx context.Context) error {
	m.note("reload", "started", "a unit file changed")
	if err := m.Units.Reload(ctx); err != nil {
		return err
	}
	m.note("reload", "ok", "systemd read its unit files again")
	return nil
}

// errNothingInPlace is wrapped when there is no generation to keep.
var errNothingInPlace = errors.New("no generation is in place")
