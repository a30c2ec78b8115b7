package commit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// RollBack rolls back by hand, and returns the generation whose contents are in place. to is a generation, NewestGood,
// or 0 for the state before prelet. An interrupted change is finished first.
func (r *Run) RollBack(ctx context.Context, to int) (goal int) {
	if _, err := r.Machine.Enter(ctx, activation.Entry{On: activation.OnFinish}); err != nil {
		r.endBroken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
		return to
	}

	e := ending{on: activation.OnRollback}
	e.to, e.enterErr = FindTarget(r.Store, to)
	if e.enterErr == nil {
		entry := activation.Entry{On: e.on, To: e.to, Why: generation.ByHand}
		e.Outcome, e.enterErr = r.Machine.Enter(ctx, entry)
	}

	if e.enterErr == nil && e.Outcome.Code == "" {
		e.Outcome.Why = "" // a rollback by hand and a verdict need no reason
	}

	e.Changed = e.enterErr == nil
	r.end(ctx, e)
	r.collect()

	return e.to
}

// RollBackBelowRoot rolls back below a root, where no unit runs. It returns the new generation and the one whose
// contents it has. With the reason generation.ByHand that one is pinned.
func RollBackBelowRoot(s *generation.Store, to int, why string) (gen, goal int, err error) {
	if _, err := s.Recover(); err != nil {
		return 0, 0, err
	}
	if err := activation.Newer(s); err != nil {
		return 0, 0, err
	}
	goal, err = FindTarget(s, to)
	if err != nil {
		return 0, 0, err
	}
	cur, err := s.Current()
	if err != nil {
		return 0, 0, err
	}
	gen, err = s.Rollback(cur.Gen, goal, why, false)
	if err == nil {
		err = s.Good(gen, nil)
	}

	return gen, goal, err
}

// NewestGood selects the last good generation before the current one.
const NewestGood = -1

// FindTarget returns the generation to go back to.
func FindTarget(store *generation.Store, to int) (int, error) {
	all, err := store.List()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fault.Usage.Errorf("cannot roll back: no generation is in place")
	}
	isReadable := func(g generation.Info) bool { return g.Gen == to && g.Status != generation.StatusDamaged }
	now := all[len(all)-1]
	switch {
	case to == now.Gen:
		return 0, fault.Usage.Errorf("generation %d is in place", to)
	case to == NewestGood:
		return findNewestGood(store, all)
	case to != 0 && !slices.ContainsFunc(all, isReadable):
		return 0, fault.Usage.Errorf(
			"generation %d is not kept, or cannot be read; prelet history lists the kept ones", to)
	}
	return to, checkTarget(store, all, to)
}

// findNewestGood returns the newest generation before the one in place that was good and can be gone back to.
func findNewestGood(store *generation.Store, all []generation.Info) (int, error) {
	now := all[len(all)-1]
	var refused error
	for _, g := range slices.Backward(all[:len(all)-1]) {
		if g.Status != generation.StatusGood || g.Gen == now.Restores {
			continue
		}
		err := checkTarget(store, all, g.Gen)
		if err == nil {
			return g.Gen, nil
		}
		refused = cmp.Or(refused, err)
	}
	if refused != nil {
		return 0, refused
	}
	return 0, fault.Usage.Errorf("no earlier generation was good; name one (prelet history), or 0 for as before prelet")
}

// checkTarget refuses a generation that cannot be gone back to, before the kubelet is stopped for it: its file is
// damaged, or it is as before prelet, which is not known.
func checkTarget(store *generation.Store, all []generation.Info, to int) error {
	isBefore := func(g generation.Info) bool {
		return g.Gen == to && g.Restores == 0
	}
	if to == 0 || slices.ContainsFunc(all, isBefore) {
		return store.KnowsBefore()
	}
	if err := store.Intact(to); err != nil {
		return &fault.Fault{
			Code:    fault.Usage,
			Summary: fmt.Sprintf("generation %d is damaged, so a rollback to it is not possible", to),
			Why:     generation.DescribeDamage(err),
			Next:    "prelet rollback without a number uses the newest intact good one",
		}
	}
	return nil
}
