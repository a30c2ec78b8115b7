package activation

import (
	"context"
	"fmt"
)

// fact is a question about where a node is. It is asked when a row that names it is tried. The answer stays in the
// location for the steps of the row. t has the earlier steps of this process. No pass asks one twice.
type fact func(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error)

// isOpen: the gate is open.
func isOpen(_ context.Context, _ *StateMachine, h *location, _ *walkState) (bool, error) {
	return h.gateOpen, nil
}

// isShutOnPurpose: the gate is shut, and no process of this boot has opened it or put anything in place.
func isShutOnPurpose(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	isPublished := h.journal != nil && !h.newBoot // by a process that was killed before it opened the gate
	isUntouched := !h.gateOpen && !t.recovered && !isPublished && !m.Gate.WasOpened()
	h.runDirLost = isUntouched && m.hasEndedRun(context.WithoutCancel(ctx))

	return isUntouched && !h.runDirLost, nil
}

// isHeld: the site holds the kubelet, and the gate is shut.
func isHeld(_ context.Context, _ *StateMachine, h *location, t *walkState) (bool, error) {
	h.blockReason = t.Held

	return t.Held != "" && !h.gateOpen, nil
}

// isNotAsFound: no kubelet may start on files without a generation.
func isNotAsFound(_ context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	why := m.whyNotAsFound()
	h.blockReason = t.Failure + "; " + why

	return why != "", nil
}

// wasMixture: the state was lost while a change of the files was interrupted.
func wasMixture(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	if over := m.Store.StartsOver(); over == nil || !over.IsMixed {
		return false, nil
	}

	return isNotAsFound(ctx, m, h, t)
}

// mayGoOn: a kubelet may start on the generation in place after a failed run.
func mayGoOn(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	h.blockReason = m.whyNotGoOn(ctx, t, h.current)

	return h.blockReason == "", nil
}

// isNotWhole: the files are not those of the generation in place, or it was never judged on a node that has not joined,
// and the run folder that said why is lost.
func isNotWhole(ctx context.Context, m *StateMachine, h *location, _ *walkState) (bool, error) {
	h.blockReason = m.whyMixed(ctx, h.current.Gen)
	if h.blockReason == "" && h.runDirLost {
		h.blockReason = m.whyUnjoined(ctx, h.current)
	}

	return h.blockReason != "", nil
}

// isNewBoot: no process of this boot has counted itself as a try.
func isNewBoot(_ context.Context, _ *StateMachine, h *location, _ *walkState) (bool, error) {
	return h.newBoot, nil
}

// hasTooManyRounds: others took over maxRounds times while this process watched.
func hasTooManyRounds(_ context.Context, _ *StateMachine, _ *location, t *walkState) (bool, error) {
	return t.rounds >= maxRounds, nil
}

// mayPatch: the site has labels or taints patched, and this process may wait for the API server. Labels are not worth a
// failure.
func mayPatch(ctx context.Context, m *StateMachine, _ *location, t *walkState) (bool, error) {
	if !t.Spec.patchesNode() {
		return false, nil
	}
	may, err := m.Units.MayWait(context.WithoutCancel(ctx), t.Spec.Unit)

	return may && err == nil, nil
}

// mayWait: this process may wait for a start of the unit: it is not prelet.service at boot.
func mayWait(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	if _, err := ownSpec(ctx, m, h, t); err != nil {
		return false, err
	}
	may, err := m.Units.MayWait(context.WithoutCancel(ctx), h.spec.Unit)

	return may, wrapAfterCommit(describeInPlace(h), err)
}

// ownSpec reads the spec of the generation in place, or of a generation that is being published, with the times and files
// that follow from it. It always holds. A crash is recovered from also if the spec cannot be read.
func ownSpec(_ context.Context, m *StateMachine, h *location, t *walkState) (holds bool, err error) {
	if h.hasSpec {
		return true, nil
	}

	switch {
	case h.on == onCommitted:
		h.spec = t.Change.Spec
	case h.phase == mixed, h.on == OnFinish && h.journal != nil:
		h.spec = m.specOrDefault(h.journal.Gen)
	case h.current == nil:
		h.spec = Spec{}.withDefaults()
	default:
		h.spec, err = m.SpecOf(h.current.Gen)
	}
	if err != nil {
		return false, err
	}

	h.hasSpec = true
	h.since = h.placed
	// This is read from the generation, so that it is also known after a crash.
	if h.journal != nil {
		changed := m.changedPaths(h.journal.Gen)
		h.keepsKubelet = len(changed) == 0 || keepsKubelet(changed, m.specsOfChange(h))
	}
	if h.keepsKubelet {
		h.since = 0
	}

	return true, nil
}

// isExhausted: more than maxTries boots began to verify the generation in place, this one included, and a rollback is
// possible, which is prepared.
func isExhausted(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	if _, err := ownSpec(ctx, m, h, t); err != nil {
		return false, err
	}
	if !h.newBoot || !h.spec.Rollback || h.journal.CountTries() < maxTries || m.Store.ReadOnly() != nil {
		return false, nil
	}
	to, some := m.lastGood(h.spec)
	if !some {
		return false, nil
	}

	// systemd must answer before the gate is shut.
	steady := context.WithoutCancel(ctx)
	if _, err := m.Units.MayWait(steady, h.spec.Unit); err != nil {
		return false, wrapAfterCommit("rolling back", err)
	}

	why := fmt.Sprintf("%d boots began to verify it, and none finished", maxTries)
	err := m.prepareRollback(steady, h, rollback{to: to, reason: why, hold: true})
	if err == nil && h.rollback == nil {
		m.note("rollback", "notice", "generation %d stays: %s", h.journal.Gen, h.stayReason)
	}

	return h.rollback != nil, err
}

// canGoBack: a rollback from a bad generation is possible and may help. It is prepared; else stayReason has the reason.
func canGoBack(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	if _, err := ownSpec(ctx, m, h, t); err != nil {
		return false, err
	}
	to, some := m.lastGood(h.spec)
	switch {
	case !some:
		h.stayReason = "no good generation exists, so this one stays and each boot verifies it again"
		return false, nil
	case t.judged.onlyPods:
		goal, err := m.specAfterRollback(h.spec, to)
		if err != nil {
			return false, wrapAfterCommit("rolling back", err)
		}

		if h.spec.sharesPods(goal) {
			h.stayReason = "the generation before has the same, so this one is not at fault: " +
				"it stays, and is verified again"
			return false, nil
		}
	}

	if !h.spec.Rollback {
		h.stayReason = "the site sets rollback = false, so the generation stays"
		return false, nil
	}

	steady := context.WithoutCancel(ctx)
	if _, err := m.Units.MayWait(steady, h.spec.Unit); err != nil {
		return false, wrapAfterCommit("rolling back", err)
	}
	f := t.judged
	err := m.prepareRollback(steady, h, rollback{to: to, reason: f.Why, cause: f.Cause, hold: true})

	return h.rollback != nil, err
}

// wayBackByHand prepares the rollback that a person asks for, or sets the error why there is none. It always holds.
func wayBackByHand(ctx context.Context, m *StateMachine, h *location, t *walkState) (bool, error) {
	if _, err := ownSpec(ctx, m, h, t); err != nil {
		return false, err
	}

	return true, m.prepareRollback(context.WithoutCancel(ctx), h, rollback{to: t.To, reason: t.Why})
}
