package activation

import (
	"context"
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
)

// Change is a change to put in place, which was compared under this lock.
type Change struct {
	Proposal generation.Proposal
	Compared *generation.Comparison
	Spec     Spec // equal to the one in the proposal's SpecBlob
	// Committed is called with the number of the generation right after the commit; nil: nothing is.
	Committed func(gen int)
	// Reload is set when a unit file or a drop-in changes. Only then systemd reads its unit files again.
	Reload bool
	// UnitFiles are the files of the kubelet's unit that change, with their content; nil for a removed file.
	UnitFiles map[string][]byte
}

// Entry is why the machine is entered: one of the triggers up to OnVerify, with its input.
type Entry struct {
	On     Trigger
	Change *Change // of OnChange
	// Spec is that of the site's plan, of OnUnchanged. It may differ from the stored one in fields that are only
	// checked.
	Spec    Spec
	Failure string // of OnFailed: the failure
	// Unrestored is why files of the generation in place could not be put back; "" if nothing kept them from that.
	Unrestored string
	// Held is why the site keeps the kubelet from starting on whatever is in place, with the next step; "": it does
	// not. It keeps a shut gate shut, except with OnOff.
	Held string
	To   int    // of OnRollback: whose contents; 0 is the state before prelet
	Why  string // of OnRollback
}

// Enter goes through the table, as one of:
//
//   - OnFinish finishes a change that a crash has interrupted. It shuts the gate, stops the kubelet and leaves the gate
//     shut; another entry opens the gate later. It needs no network. It needs systemd only when a kubelet could be
//     running on the mixed files: if that kubelet does not stop or systemd does not answer, it changes nothing and
//     returns fault.Interrupted. With no interrupted change it only removes the staged files of a commit that never
//     happened.
//   - OnChange commits a change and starts the kubelet on it. Outcome.Committed is also set with an error: then the
//     code is fault.Interrupted, or fault.NeedsPerson from the Store, and OnFinish finishes the change. Inside
//     prelet.service the verdict is Pending. Elsewhere it is waited for.
//   - OnResume continues with the generation in place when nothing has to change or nothing may change (the plan is
//     held, the site is gone). It opens the gate, makes sure that a kubelet which waits for the gate starts, and judges
//     the generation if it has no verdict yet. If the generation is good and the gate is open, it changes nothing.
//   - OnUnchanged is OnResume when the site's plan is the one in place. If the site enables it, it also patches labels
//     that differ: somebody edited one, the site enables this now, or the cluster did not answer after the verdict. At
//     boot, where prelet must not wait, it patches nothing. Outcome.Checks has the result.
//   - OnFailed follows a run that failed before its commit. The kubelet may start on the generation in place if that is
//     complete and good, or complete, not judged yet and the node has joined: a typo must not stop a fleet at its next
//     reboot. Without a generation it may start on the files of a node that has joined.
//     Otherwise the gate stays shut, and HeldBack has the reason.
//   - OnNoSite is of a node without a site. If there never was a generation, prelet is not in use and the kubelet
//     starts unchanged, unless a change of its files was interrupted; otherwise it is OnFailed.
//   - OnOff opens the gate on the generation in place, judged or not, and on 0 when there never was one. It starts
//     nothing.
//   - OnRollback replaces the generation in place with the contents of an earlier one, by hand. The caller holds the
//     plan. A rollback that removes a state file of the kubelet's managers is refused while pods may use the CPUs or
//     memory in it, as in a run (fault.CannotWrite).
//   - OnVerify is what prelet-verify.service runs. Each start and each crash of the kubelet triggers it while there is
//     a journal or no gate. It opens a lost gate and judges a generation that awaits a verdict.
//
// The lock is held. OnResume, OnUnchanged, OnOff and OnVerify finish an interrupted change first.
func (m *StateMachine) Enter(ctx context.Context, e Entry) (Outcome, error) {
	t := &walkState{Entry: e}

	switch e.On {
	case OnResume, OnUnchanged, OnOff, OnVerify:
		out, err := m.walk(ctx, t, OnFinish)
		if err != nil {
			return out, err
		}
	case OnNoSite:
		t.Failure = "the site is gone"
	}

	t.Spec = t.Spec.withDefaults()
	if t.Change != nil {
		t.Change.Spec = t.Change.Spec.withDefaults()
	}

	out, err := m.walk(ctx, t, e.On)
	out.Committed = t.committed

	switch {
	case err == nil && e.On == OnRollback && t.rollback != nil:
		out = describeRequested(out, t.rollback.from)
	case err != nil && t.txn != nil && !t.committed:
		if aborted := t.txn.Abort(); aborted != nil {
			err = fmt.Errorf("%w; and what was staged could not be removed: %w", err, aborted)
		}
	}

	return out, err
}

// Newer returns a fault with fault.NewerPrelet if a newer prelet wrote the generation in place, or something else that
// this one would have to change; else nil.
func Newer(s Store) error {
	if err := s.Newer(); err != nil {
		return err
	}
	current, err := s.Current()
	if err != nil || current == nil {
		return nil
	}
	if _, err = readSpec(s, current.Gen); errors.Is(err, generation.ErrNewer) {
		return generation.NewerFault(fmt.Sprintf("%s of generation %d", SpecBlob, current.Gen))
	}

	return nil
}

// KeepNewer opens the gate on a generation that a newer prelet made, judged or not, as OnOff does. If the files are
// not those of that generation, or the site holds the kubelet (held, as Entry.Held), a gate that is shut stays so, and
// HeldBack has the reason. The caller has checked that no commit is unfinished.
func (m *StateMachine) KeepNewer(ctx context.Context, held string) (Outcome, error) {
	current, err := m.Store.Current()
	if err != nil {
		return Outcome{}, err
	}

	why := held
	if why == "" && current != nil {
		why = m.whyMixed(ctx, current.Gen)
	}
	if why == "" {
		return m.walk(ctx, &walkState{}, OnOff) // an interrupted change is that prelet's
	}

	shut, err := m.KeepShut(why)
	if shut {
		return Outcome{HeldBack: why}, err
	}

	return Outcome{Generation: current.Gen}, err
}

// KeepShut writes the reason of a gate that is shut, and reports whether it is. It is not in the table, which needs the
// journal: it runs when the journal or the generations cannot be read.
func (m *StateMachine) KeepShut(why string) (shut bool, err error) {
	if !m.Gate.IsShut() {
		return false, nil
	}

	return true, m.Gate.Shut(why)
}

// describeRequested returns the outcome of a requested rollback: the request is not a failure of the generation before.
func describeRequested(out Outcome, from int) Outcome {
	switch {
	case out.Verdict == Bad && out.Code == fault.RolledBack:
		out.Code = ""
		out.Verdict = Good
		if out.InPlace == Pending {
			out.Verdict = Pending
		}
	case out.Verdict == Unknown:
		out.Code = ""
	}

	if out.Verdict == Good && out.From == 0 {
		out.From = from
		out.InPlace = Good
	}

	return out
}

// CheckPodState refuses to remove a state file of the kubelet's managers while pods may use the CPUs or memory in it.
// That is the case when a kubelet has run in this boot and was not stopped by hand. why is the reason for the
// removal, next the alternative.
func CheckPodState(u Unit, state, why, next string) error {
	if u.Started == 0 || u.Active == "inactive" {
		return nil
	}

	return generation.NewFault(
		fault.CannotWrite,
		"remove",
		state,
		fmt.Errorf("%s, and running pods may use the CPUs or memory in it", why),
		next,
	)
}
