package commit

import (
	"context"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
)

// RollBack rolls back by hand, and returns the generation whose contents are in place. to is a generation, NewestGood,
// or 0 for the state before prelet. An interrupted change is finished first.
func (r *Run) RollBack(ctx context.Context, to int) (goal int) {
	r.whyHeld(ctx)
	if _, err := r.Machine.Enter(ctx, activation.Entry{On: activation.OnFinish}); err != nil {
		r.endBroken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
		return to
	}

	e := ending{on: activation.OnRollback}
	e.to, e.enterErr = FindTarget(r.Store, to)
	if e.enterErr == nil {
		entry := activation.Entry{On: e.on, To: e.to, Why: generation.ByHand}
		e.Outcome, e.enterErr = r.enter(ctx, entry)
	}

	if e.enterErr == nil && e.Outcome.Code == "" {
		e.Outcome.Why = "" // a rollback by hand and a verdict need no reason
	}

	e.Changed = e.enterErr == nil
	r.end(ctx, e)

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
	blobs, err := (&activation.StateMachine{Store: s}).BlobsOfGoal(cur.Gen, goal)
	if err != nil {
		return 0, 0, err
	}
	gen, err = s.Rollback(cur.Gen, goal, why, false, blobs)
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
		if over := store.StartsOver(); over != nil {
			return 0, fault.Usage.Errorf("cannot roll back: %s", over)
		}
		return 0, fault.Usage.Errorf("cannot roll back: no generation is in place")
	}
	now := all[len(all)-1]
	switch {
	case to == now.Gen:
		return 0, fault.Usage.Errorf("generation %d is in place", to)
	case to == NewestGood:
		return findNewestGood(all)
	case to != 0 && !slices.ContainsFunc(all, func(g generation.Info) bool { return g.Gen == to }):
		why := ""
		if a := store.FindAside(); a != nil && to <= a.Last {
			why = ": " + a.String()
		}
		return 0, fault.Usage.Errorf("generation %d is not kept%s; prelet history lists the kept ones", to, why)
	}

	return to, nil
}

// findNewestGood returns the newest generation before the one in place that was good.
func findNewestGood(all []generation.Info) (int, error) {
	now := all[len(all)-1]
	for _, g := range slices.Backward(all[:len(all)-1]) {
		if g.Status == generation.StatusGood && g.Gen != now.Restores {
			return g.Gen, nil
		}
	}

	why := "no earlier generation was good"
	if now.Restores > 0 {
		why = fmt.Sprintf("no earlier generation was good, but %d, whose contents are in place", now.Restores)
	}

	return 0, fault.Usage.Errorf("%s; name one (prelet history), or 0 for as before prelet", why)
}
