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

// Apply commits a change and makes the kubelet run on it. The lock is held. An error of fault.Systemd means that
// nothing was committed; after the commit it is fault.Interrupted, or what the Store says, and Recover goes on from
// there.
//
// Inside prelet.service the verdict is Pending when it returns. Elsewhere it waits for the verdict.
func (m *Machine) Apply(ctx context.Context, c Change) (Outcome, error) {
	c.Plan = c.Plan.withDefaults()
	t := &walkState{change: &c}

	out, err := m.walk(ctx, t, onChange)
	if err != nil && !t.committing {
		if aborted := c.Txn.Abort(); aborted != nil {
			return out, fmt.Errorf("%w; and what was staged could not be removed: %w", err, aborted)
		}
	}

	return out, err
}

// Recover finishes what a crash left in the middle of changing files, with the gate shut and the kubelet stopped
// meanwhile, and leaves the gate shut: what follows (Apply, Resume, Verify) opens it. It needs no network, and systemd
// only when a kubelet could be running on the mixture: then one that does not stop, or a systemd that does not answer,
// leaves all as it is (fault.Interrupted). Without anything to finish it touches nothing but what a commit that never
// happened staged. Afterwards the journal, which it returns, is nil or awaits a verdict.
func (m *Machine) Recover(ctx context.Context) (*generation.Journal, error) {
	if _, err := m.walk(ctx, &walkState{}, onFinish); err != nil {
		return nil, err
	}

	return m.Store.Journal()
}

// Resume goes on with the generation in place, when there is nothing to change or nothing that may be changed (the plan
// is held, the site is gone): opens the gate on it, makes sure that a kubelet which waits for it starts, and judges it
// if nobody has. A generation that is good, on a node where the gate is open, is left alone wholly.
func (m *Machine) Resume(ctx context.Context) (Outcome, error) {
	return m.recoverThen(ctx, &walkState{}, onResume)
}

// Verify is prelet-verify.service: pulled in by each start and each crash of the kubelet, when there is a journal or no
// gate. It finishes what a killed prelet left, opens a gate that was lost, and judges what awaits a verdict.
func (m *Machine) Verify(ctx context.Context) (Outcome, error) {
	return m.recoverThen(ctx, &walkState{}, onVerify)
}

// recoverThen finishes what a crash left before anything else.
func (m *Machine) recoverThen(ctx context.Context, t *walkState, on trigger) (Outcome, error) {
	if out, err := m.walk(ctx, t, onFinish); err != nil {
		return out, err
	}

	return m.walk(ctx, t, on)
}

// Keep is for a run that failed before its commit: the generation in place stays, and the kubelet may start on it, if
// it is whole and good, or whole, not judged yet and the node has joined. A typo must not take a fleet down at its next
// reboot. Otherwise the gate stays shut, and HeldBack says why.
func (m *Machine) Keep(ctx context.Context, failure string) (Outcome, error) {
	return m.walk(ctx, &walkState{failure: failure}, onFailed)
}

// StandAside is for a node without a site. Where there never was a generation, prelet is not in use, and the kubelet
// starts as it is; else it is Keep.
func (m *Machine) KeepWithoutSite(ctx context.Context) (Outcome, error) {
	return m.walk(ctx, &walkState{failure: "there is no site any more"}, onNoSite)
}

// GoBack leaves the generation in place for the contents of an earlier one, by hand: 0 is as before prelet. To hold the
// plan that is left until somebody releases it is the caller's. While pods may hold what a state file of the kubelet's
// managers lists, a way back that takes it is refused as a run is (fault.CannotWrite).
func (m *Machine) GoBack(ctx context.Context, to int, why string) (Outcome, error) {
	t := &walkState{to: to, why: why}

	out, err := m.walk(ctx, t, onRollback)
	if err != nil || t.rollback == nil {
		return out, err
	}

	return describeRequested(out, t.rollback.from), nil
}

// askedFor is the outcome of a way back that somebody asked for: that it was left is no fault of what was left.
func describeRequested(out Outcome, from int) Outcome {
	switch {
	case out.Verdict == Bad && out.Code == fault.RolledBack:
		out.Code, out.Verdict = "", Good
		if out.InPlace == Pending {
			out.Verdict = Pending
		}
	case out.Verdict == Unknown:
		out.Code = ""
	}

	if out.Verdict == Good && out.From == 0 {
		out.From, out.InPlace = from, Good
	}

	return out
}

// Foreign refuses to go back to a generation that was made on another machine.
func ForeignFault(gen int, why string) error {
	return &fault.Fault{
		Code: fault.Usage, Summary: fmt.Sprintf("generation %d was made on another machine: %s", gen, why),
		Next: "prelet history lists the others; 0 is as before prelet",
	}
}

// PodsHold refuses to take a state file of the kubelet's managers away while pods may run that hold what it lists:
// where a kubelet has run in this boot, and nobody has stopped it. At a boot none has. why is why the file has to go,
// next what to do instead.
func CheckPodState(u Unit, state, why, next string) error {
	if u.Started == 0 || u.Active == "inactive" {
		return nil
	}

	return generation.NewFault(
		fault.CannotWrite, "remove", state, fmt.Errorf("%s, and pods that run may hold what it lists", why), next,
	)
}
