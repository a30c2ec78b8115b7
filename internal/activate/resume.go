package activate

import (
	"context"
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// Recover finishes what a crash left in the middle of changing files, with the gate shut and the kubelet stopped meanwhile,
// and leaves the gate shut: what follows (Apply, Resume, Verify) opens it. It needs no network, and systemd only when a kubelet
// could be running on the mixture: then one that does not stop, or a systemd that does not answer, leaves all as it is
// (fault.Interrupted). Without anything to finish it touches nothing but what a commit that never happened staged.
// Afterwards the journal is nil or awaits a verdict.
func (m *Machine) Recover(ctx context.Context) (*generation.Journal, error) {
	j, err := m.Store.Journal()
	if err != nil {
		return nil, err
	}
	if j == nil || j.Phase == generation.PhaseVerify {
		return m.Store.Recover()
	}
	_, wasOpen, err := m.Gate.State()
	if err != nil {
		return nil, err
	}
	m.note("recover", "started", "generation %d: the journal says %s", j.Gen, j.Phase)
	unit := DefaultUnit
	if plan, err := m.planOf(j.Gen); err == nil {
		unit = plan.Unit
	}
	// Behind a gate that was shut since this boot began no kubelet has started, and systemd is not needed. Behind one that was open
	// before, and where one ran before there was a gate, the one that we were about to stop may still run.
	never := !wasOpen && m.Gate.NeverPassed()
	err = m.keepOut(context.WithoutCancel(ctx), unit, fmt.Sprintf("generation %d is being put in place after a crash", j.Gen))
	if err != nil && !(never && errors.Is(err, errUnseen)) {
		return nil, afterCommit("recovering", err)
	}
	if j, err = m.Store.Recover(); err != nil {
		m.note("recover", "failed", "%v", err)
		return nil, err
	}
	m.note("recover", "ok", "every file is in place")
	return j, nil
}

// Resume goes on with the generation in place, when there is nothing to change or nothing that may be changed (the plan is held,
// the site is gone): opens the gate on it, makes sure that a kubelet which waits for it starts, and judges it if nobody has. A
// generation that is good, on a node where the gate is open, is left alone wholly.
func (m *Machine) Resume(ctx context.Context) (Outcome, error) {
	j, err := m.Recover(ctx)
	if err != nil {
		return Outcome{}, err
	}
	current, err := m.Store.Current()
	if err != nil {
		return Outcome{}, err
	}
	if current == nil {
		return Outcome{}, &fault.Fault{Code: fault.Internal, Summary: "nothing to resume", Err: errNothingInPlace}
	}
	plan, err := m.planOf(current.Gen)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Generation: current.Gen}
	if j != nil && j.BootID != m.BootID {
		tries, err := m.beginTry(j)
		if err != nil {
			return out, afterCommit("counting the try", err)
		}
		if to, some := m.lastGood(); tries > maxTries && some && plan.Rollback && j.From == 0 {
			may, err := m.Units.MayWait(ctx, plan.Unit)
			if err != nil {
				return out, afterCommit("going back", err)
			}
			why := fmt.Sprintf("%d boots began to verify it, and none came to an end", maxTries)
			return m.goBack(ctx, back{from: j.Gen, to: to, why: why, mayWait: may, hold: true})
		}
	}
	opened, err := m.openIfShut(current.Gen)
	if err != nil {
		return out, err
	}
	if j == nil && !opened && !m.Gate.Owed(plan.Unit) {
		return out, nil
	}
	return m.goOn(ctx, j, plan, out, opened)
}

// goOn judges what awaits a verdict, where that may be waited for, and else makes sure that the unit comes up.
func (m *Machine) goOn(ctx context.Context, j *generation.Journal, plan Plan, out Outcome, opened bool) (Outcome, error) {
	may, err := m.Units.MayWait(ctx, plan.Unit)
	if err != nil {
		return out, m.afterOpen(j, err)
	}
	if j != nil && may {
		return m.judge(ctx, j, opened)
	}
	e := errand{opened: opened}
	if j != nil {
		out.Verdict, e.since = Pending, m.inPlace(j)
	}
	_, err = m.bringUp(ctx, plan.Unit, e)
	return out, m.afterOpen(j, err)
}

// afterOpen gives trouble with systemd after the gate was opened its code: 42 where a verdict is pending, else 52.
func (m *Machine) afterOpen(j *generation.Journal, err error) error {
	switch {
	case err == nil:
		return nil
	case j != nil:
		return afterCommit(fmt.Sprintf("generation %d is in place", j.Gen), err)
	}
	return systemdTrouble("the gate is open; bringing the kubelet up", err)
}

func (m *Machine) openIfShut(gen int) (opened bool, err error) {
	_, open, err := m.Gate.State()
	if err != nil || open {
		return false, err
	}
	return true, m.open(gen)
}

// Verify is prelet-verify.service: pulled in by each start and each crash of the kubelet, when there is a journal or no gate. It
// finishes what a killed prelet left, opens a gate that was lost, and judges what awaits a verdict.
func (m *Machine) Verify(ctx context.Context) (Outcome, error) {
	was, err := m.Store.Journal()
	if err != nil {
		return Outcome{}, err
	}
	j, err := m.Recover(ctx)
	if err != nil {
		return Outcome{}, err
	}
	current, err := m.Store.Current()
	if err != nil {
		return Outcome{}, err
	}
	_, open, err := m.Gate.State()
	if err != nil {
		return Outcome{}, err
	}
	if current == nil {
		if !open {
			return Outcome{HeldBack: m.reason("prelet has not finished a run")}, nil
		}
		return Outcome{}, nil
	}
	out := Outcome{Generation: current.Gen}
	if !open {
		crashed := was != nil && was.Phase != generation.PhaseVerify
		published := j != nil && j.BootID == m.BootID // in this boot, by one that was killed before it opened the gate
		if !crashed && !published && !m.Gate.OpenedInThisBoot() {
			out.HeldBack = m.reason("prelet has not finished a run in this boot")
			return out, nil
		}
		if why := m.mixture(ctx, current.Gen); why != "" {
			out.HeldBack = why
			return out, m.Gate.Shut(why)
		}
		if err := m.open(current.Gen); err != nil {
			return out, err
		}
	} else if j == nil {
		return out, nil
	}
	plan, err := m.planOf(current.Gen)
	if err != nil {
		return out, err
	}
	return m.goOn(ctx, j, plan, out, !open)
}

// Keep is for a run that failed before COMMIT: the generation in place stays, and the kubelet may start on it, if it is whole
// and good, or whole, not judged yet and the node has joined. A typo must not take a fleet down at its next reboot. Otherwise
// the gate stays shut, and HeldBack says why.
func (m *Machine) Keep(ctx context.Context, failure string) (Outcome, error) {
	current, err := m.Store.Current()
	if err != nil {
		return Outcome{}, err
	}
	why := ""
	switch {
	case current == nil:
		why = failure + "; no generation was ever in place"
	case current.Status == generation.StatusDamaged:
		why = fmt.Sprintf("%s; and generation %d, which is in place, cannot be read: %s", failure, current.Gen, current.Why)
	default:
		if why = m.mixture(ctx, current.Gen); why == "" && current.Status == generation.StatusPending && !m.joined(ctx, current.Gen) {
			why = fmt.Sprintf("generation %d was never judged, and the node has not joined", current.Gen)
		}
		if why != "" {
			why = failure + "; and " + why
		}
	}
	if why == "" {
		return m.Resume(ctx)
	}
	out := Outcome{}
	if current != nil {
		out.Generation = current.Gen
	}
	if _, open, err := m.Gate.State(); err != nil || open {
		return out, err // opened earlier in this boot: what runs is left alone
	}
	out.HeldBack = why
	return out, m.Gate.Shut(why)
}

// StandAside is for a node on which prelet is not in use: no site, and never a generation.
func (m *Machine) StandAside(ctx context.Context) (Outcome, error) {
	if _, open, err := m.Gate.State(); err != nil || open {
		return Outcome{}, err
	}
	if err := m.open(0); err != nil {
		return Outcome{}, err
	}
	_, err := m.bringUp(ctx, DefaultUnit, errand{opened: true})
	return Outcome{}, m.afterOpen(nil, err)
}

// mixture says why the files on disk are not those of the generation, or nothing. Those of another machine are none of ours,
// however whole: with them the kubelet would be that node.
func (m *Machine) mixture(ctx context.Context, gen int) string {
	if why := m.foreign(gen); why != "" {
		return fmt.Sprintf("generation %d was made on another machine (%s), and no run has made one here", gen, why)
	}
	plan, err := m.planOf(gen)
	if err == nil && len(plan.Files) > 0 {
		err = m.Probe.Files(ctx, plan.Files)
	}
	if err != nil {
		return fmt.Sprintf("generation %d is not in place whole: %v", gen, err)
	}
	return ""
}

func (m *Machine) joined(ctx context.Context, gen int) bool {
	plan, err := m.planOf(gen)
	return err == nil && plan.Kubeconfig != "" && m.Probe.Kubeconfig(ctx, plan.Kubeconfig) == nil
}

// reason is what the gate's closer said, or else what there is to say.
func (m *Machine) reason(otherwise string) string {
	if why := m.Gate.Why(); why != "" {
		return why
	}
	return otherwise
}
