package activation

import (
	"context"
	"fmt"
	"slices"
)

// fact is a question about where a node is. It is asked when a row that names it is tried. Its answer stays in the
// location for the steps of the row.
type fact func(ctx context.Context, p *pass) (bool, error)

// pass is one pass of a walk through the table: where the node is, and the earlier steps of this process.
type pass struct {
	location
	m *StateMachine
	t *walkState
}

// isOpen: the gate is open.
func isOpen(_ context.Context, p *pass) (bool, error) {
	return p.gateOpen, nil
}

// isShutOnPurpose: the gate is shut, and no process of this boot has opened it or put anything in place.
func isShutOnPurpose(ctx context.Context, p *pass) (bool, error) {
	return p.isUntouched() && !p.isRunDirLost(ctx), nil
}

// isUntouched reports whether the gate is shut, and nothing shows that a process of this boot has opened it or put
// anything in place.
func (p *pass) isUntouched() bool {
	isPublished := p.journal != nil && !p.newBoot // by a process that was killed before it opened the gate

	return !p.gateOpen && !p.t.recovered && !isPublished && !p.m.Gate.WasOpened()
}

// isRunDirLost reports whether somebody has emptied the run folder after a run of this boot. systemd is asked once.
func (p *pass) isRunDirLost(ctx context.Context) bool {
	if p.runDirLost == nil {
		isLost := p.isUntouched() && p.m.hasEndedRun(context.WithoutCancel(ctx))
		p.runDirLost = &isLost
	}

	return *p.runDirLost
}

// isHeld: the site holds the kubelet, and the gate is shut.
func isHeld(_ context.Context, p *pass) (bool, error) {
	p.blockReason = p.t.Held

	return p.t.Held != "" && !p.gateOpen, nil
}

// isNotAsFound: no kubelet may start on files without a generation.
func isNotAsFound(_ context.Context, p *pass) (bool, error) {
	why := p.m.whyNotAsFound()
	p.blockReason = p.t.Failure + "; " + why

	return why != "", nil
}

// wasMixture: the state was lost while a change of the files was interrupted.
func wasMixture(ctx context.Context, p *pass) (bool, error) {
	if over := p.m.Store.StartsOver(); over == nil || !over.IsMixed {
		return false, nil
	}

	return isNotAsFound(ctx, p)
}

// mayGoOn: a kubelet may start on the generation in place after a failed run.
func mayGoOn(ctx context.Context, p *pass) (bool, error) {
	p.blockReason = p.m.whyNotGoOn(ctx, p.t, p.current)

	return p.blockReason == "", nil
}

// isNotWhole: the files are not those of the generation in place, or it was never judged on a node that has not joined,
// and the run folder that said why is lost.
func isNotWhole(ctx context.Context, p *pass) (bool, error) {
	p.blockReason = p.m.whyMixed(ctx, p.current.Gen)
	if p.blockReason == "" && p.isRunDirLost(ctx) {
		p.blockReason = p.m.whyUnjoined(ctx, p.current)
	}

	return p.blockReason != "", nil
}

// isNewBoot: no process of this boot has counted itself as a try.
func isNewBoot(_ context.Context, p *pass) (bool, error) {
	return p.newBoot, nil
}

// hasTooManyRounds: others took over maxRounds times while this process watched.
func hasTooManyRounds(_ context.Context, p *pass) (bool, error) {
	return p.t.rounds >= maxRounds, nil
}

// mayPatch: the site has labels or taints patched, and this process may wait for the API server. Labels are not worth a
// failure.
func mayPatch(ctx context.Context, p *pass) (bool, error) {
	if !p.t.Spec.patchesNode() {
		return false, nil
	}
	may, err := p.m.Node.MayWait(context.WithoutCancel(ctx), p.t.Spec.Unit)

	return may && err == nil, nil
}

// mayWait: this process may wait for a start of the unit: it is not prelet.service at boot.
func mayWait(ctx context.Context, p *pass) (bool, error) {
	if _, err := ownSpec(ctx, p); err != nil {
		return false, err
	}
	may, err := p.m.Node.MayWait(context.WithoutCancel(ctx), p.spec.Unit)

	return may, wrapAfterCommit(describeInPlace(&p.location), err)
}

// ownSpec reads the spec of the generation in place, or of a generation that is being published, with the times and
// files that follow from it. It always holds. A crash is recovered from also if the spec cannot be read.
func ownSpec(_ context.Context, p *pass) (holds bool, err error) {
	if p.hasSpec {
		return true, nil
	}

	switch {
	case p.on == onCommitted:
		p.spec = p.t.Change.Spec
	case p.phase == mixed, p.on == OnFinish && p.journal != nil:
		p.spec = p.m.specOrDefault(p.journal.Gen)
	case p.current == nil:
		p.spec = Spec{}.withDefaults()
	default:
		p.spec, err = p.m.SpecOf(p.current.Gen)
	}
	if err != nil {
		return false, err
	}

	p.hasSpec = true
	p.since = p.placed
	// This is read from the generation, so that it is also known after a crash.
	if p.journal != nil {
		changed := p.m.changedPaths(p.journal.Gen)
		p.keepsKubelet = len(changed) == 0 || keepsKubelet(changed, p.m.specsOfChange(&p.location))
	}
	if p.keepsKubelet {
		p.since = 0
	}

	return true, nil
}

// isExhausted: more than maxTries boots began to verify the generation in place, this one included, and a rollback is
// possible, which is prepared.
func isExhausted(ctx context.Context, p *pass) (bool, error) {
	if _, err := ownSpec(ctx, p); err != nil {
		return false, err
	}
	if !p.newBoot || !p.spec.Rollback || p.journal.CountTries() < maxTries || p.m.Store.ReadOnly() != nil {
		return false, nil
	}
	to, some := p.m.lastGood(p.spec)
	if !some {
		return false, nil
	}

	// systemd must answer before the gate is shut.
	steady := context.WithoutCancel(ctx)
	if _, err := p.m.Node.MayWait(steady, p.spec.Unit); err != nil {
		return false, wrapAfterCommit("rolling back", err)
	}

	why := fmt.Sprintf("%d boots began to verify it, and none finished", maxTries)
	err := p.m.prepareRollback(steady, &p.location, rollback{to: to, reason: why, hold: true})
	if err == nil && p.rollback == nil {
		p.m.note("rollback", "notice", "generation %d stays: %s", p.journal.Gen, p.stayReason)
	}

	return p.rollback != nil, err
}

// canGoBack: a rollback from a bad generation is possible and may help. It is prepared; else stayReason has the reason.
func canGoBack(ctx context.Context, p *pass) (bool, error) {
	if _, err := ownSpec(ctx, p); err != nil {
		return false, err
	}
	to, some := p.m.lastGood(p.spec)
	switch {
	case !some:
		p.stayReason = "no good generation exists, so this one stays and each boot verifies it again"
		return false, nil
	case p.t.judged.onlyPods:
		goal, err := p.m.specAfterRollback(p.spec, to)
		if err != nil {
			return false, wrapAfterCommit("rolling back", err)
		}

		if p.spec.sharesPods(goal) {
			p.stayReason = "the generation before has the same, so this one is not at fault: " +
				"it stays, and is verified again"
			return false, nil
		}
	}

	if !p.spec.Rollback {
		p.stayReason = "the site sets rollback = false, so the generation stays"
		return false, nil
	}

	steady := context.WithoutCancel(ctx)
	if _, err := p.m.Node.MayWait(steady, p.spec.Unit); err != nil {
		return false, wrapAfterCommit("rolling back", err)
	}
	f := p.t.judged
	err := p.m.prepareRollback(steady, &p.location, rollback{to: to, reason: f.Why, cause: f.Cause, hold: true})

	return p.rollback != nil, err
}

// wayBackByHand prepares the rollback that a person asks for, or sets the error why there is none. It always holds.
func wayBackByHand(ctx context.Context, p *pass) (bool, error) {
	if _, err := ownSpec(ctx, p); err != nil {
		return false, err
	}

	return true, p.m.prepareRollback(context.WithoutCancel(ctx), &p.location, rollback{to: p.t.To, reason: p.t.Why})
}

func (m *StateMachine) changedPaths(gen int) (out []string) {
	info, _ := m.Store.Info(gen)
	for _, e := range info.Entries {
		if e.HasChange() {
			out = append(out, e.Path)
		}
	}

	return out
}

// specsOfChange returns the spec of the journal's generation, and of the generation that a rollback leaves.
func (m *StateMachine) specsOfChange(h *location) []Spec {
	specs := []Spec{h.spec}
	if h.journal.From != 0 {
		specs = append(specs, m.specOrDefault(h.journal.From))
	}

	return specs
}

// isQuiet reports whether a change of a file does not concern the kubelet, by the specs of the generations on both
// sides of the change.
func isQuiet(path string, specs []Spec) bool {
	quiet := false

	for _, p := range specs {
		isOther := slices.Contains(p.Others, path)
		if _, isFile := p.Files[path]; isFile && !isOther {
			return false
		}

		quiet = quiet || isOther
	}

	return quiet
}

// keepsKubelet reports whether a change of files leaves those of the kubelet as they are. specs are those of the
// generations on both sides of the change.
func keepsKubelet(changed []string, specs []Spec) bool {
	hasOthers := slices.ContainsFunc(specs, func(p Spec) bool {
		return len(p.Others) > 0
	})
	changesUnit := slices.ContainsFunc(specs, func(p Spec) bool {
		return p.Unit != specs[0].Unit
	})
	if !hasOthers || changesUnit || len(changed) == 0 {
		return false
	}

	return !slices.ContainsFunc(changed, func(path string) bool {
		return !isQuiet(path, specs)
	})
}
