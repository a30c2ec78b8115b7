package activate

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// Change is a commit that is staged, with what is needed to activate it.
type Change struct {
	Txn  Txn
	Plan Plan // the same that the proposal holds as PlanBlob
	// Reload: a unit file or a drop-in is among what changes. Without it systemd is not made to read them again.
	Reload bool
}

// Apply commits a change and makes the kubelet run on it. The lock is held. An error of fault.Systemd means that nothing was
// committed; after COMMIT it is one of fault.Interrupted, or what the Store says, and Recover goes on from there.
//
// Inside prelet.service the verdict is Pending when it returns. Elsewhere it waits for the verdict.
func (m *Machine) Apply(ctx context.Context, c Change) (Outcome, error) {
	plan := c.Plan.withDefaults()
	ground, err := m.Preflight(ctx, plan.Unit)
	if err == nil && ctx.Err() != nil {
		err = systemdTrouble("told to stop before COMMIT", context.Cause(ctx))
	}
	if err == nil {
		err = m.saw(ground.Unit)
	}
	if err != nil {
		if aborted := c.Txn.Abort(); aborted != nil {
			return Outcome{}, fmt.Errorf("%w; and what was staged could not be removed: %w", err, aborted)
		}
		return Outcome{}, err
	}
	steady := context.WithoutCancel(ctx)
	defer m.bounded(plan)()
	m.note("commit", "started", "%s", plan.Unit)
	gen, err := c.Txn.Commit()
	if err != nil {
		m.note("commit", "failed", "%v", err)
		return Outcome{}, err
	}
	m.note("commit", "ok", "generation %d", gen)
	if err := m.keepOut(steady, plan.Unit, fmt.Sprintf("generation %d is being put in place", gen)); err != nil {
		return Outcome{Generation: gen}, afterCommit(fmt.Sprintf("generation %d is committed and not in place yet", gen), err)
	}
	m.note("publish", "started", "generation %d", gen)
	if err := c.Txn.Publish(); err != nil {
		m.note("publish", "failed", "%v", err)
		return Outcome{Generation: gen}, afterCommit(fmt.Sprintf("putting generation %d in place", gen), err)
	}
	m.note("publish", "ok", "generation %d is in place", gen)
	if c.Reload {
		if err := m.reload(steady); err != nil {
			return Outcome{Generation: gen}, afterCommit(fmt.Sprintf("generation %d is in place; systemd did not read its unit files", gen), err)
		}
	}
	if err := m.open(gen); err != nil {
		return Outcome{Generation: gen}, afterCommit(fmt.Sprintf("generation %d is in place", gen), err)
	}
	j, err := m.Store.Journal()
	if err != nil {
		return Outcome{Generation: gen}, err
	}
	if j == nil || j.Phase != generation.PhaseVerify || j.Gen != gen {
		return Outcome{Generation: gen}, &fault.Fault{Code: fault.Internal, Summary: fmt.Sprintf("generation %d was put in place, and the journal does not say so", gen)}
	}
	if !ground.MayWait {
		_, err := m.bringUp(steady, plan.Unit, errand{opened: true, since: m.inPlace(j)})
		return Outcome{Verdict: Pending, Generation: gen}, afterCommit(fmt.Sprintf("generation %d is in place", gen), err)
	}
	return m.judge(ctx, j, true)
}

// GoBack leaves the generation in place for the contents of an earlier one, by hand: 0 is as before prelet. To hold the plan
// that is left until somebody releases it is the caller's. What a crash left must have been recovered. While pods may hold what a
// state file of the kubelet's managers lists, a way back that takes it is refused as a run is (fault.CannotWrite).
func (m *Machine) GoBack(ctx context.Context, to int, why string) (Outcome, error) {
	current, err := m.Store.Current()
	if err != nil {
		return Outcome{}, err
	}
	if current == nil {
		return Outcome{}, fmt.Errorf("going back to generation %d: %w", to, errNothingInPlace)
	}
	plan, err := m.planOf(current.Gen)
	if err != nil {
		return Outcome{}, err
	}
	if why := m.foreign(to); to != 0 && why != "" {
		return Outcome{}, Foreign(to, why)
	}
	ground, err := m.Preflight(ctx, plan.Unit)
	if err != nil {
		return Outcome{}, err
	}
	goal, err := m.goal(plan, to)
	if err != nil {
		return Outcome{}, err
	}
	for _, state := range plan.outlived(goal) {
		why := fmt.Sprintf("generation %d has another policy of the manager whose state it is", to)
		if err := PodsHold(ground.Unit, state, why, fmt.Sprintf("drain the node, systemctl stop %[1]s, prelet rollback %[2]d, systemctl start %[1]s", plan.Unit, to)); err != nil {
			return Outcome{}, err
		}
	}
	if err := m.saw(ground.Unit); err != nil {
		return Outcome{}, err
	}
	out, err := m.goBack(ctx, back{from: current.Gen, to: to, why: why, mayWait: ground.MayWait})
	if err == nil && out.Verdict == Bad && out.Code == fault.RolledBack { // it was asked for, and came up well
		out.Code, out.Verdict = "", Good
		if !ground.MayWait {
			out.Verdict = Pending
		}
	}
	if err == nil && out.Verdict == Unknown {
		out.Code = ""
	}
	if err == nil && out.Verdict == Good && out.From == 0 {
		out.From, out.InPlace = current.Gen, Good
	}
	return out, err
}

// Foreign refuses to go back to a generation that was made on another machine.
func Foreign(gen int, why string) error {
	return &fault.Fault{Code: fault.Usage, Summary: fmt.Sprintf("generation %d was made on another machine: %s", gen, why),
		Next: "prelet history lists the others; 0 is as before prelet"}
}

// PodsHold refuses to take a state file of the kubelet's managers away while pods may run that hold what it lists: where a kubelet
// has run in this boot, and nobody has stopped it. At a boot none has. why is why the file has to go, hint what to do instead.
func PodsHold(u Unit, state, why, hint string) error {
	if u.Started == 0 || u.Active == "inactive" {
		return nil
	}
	return generation.NewFault(fault.CannotWrite, "remove", state, fmt.Errorf("%s, and pods that run may hold what it lists", why), hint)
}
