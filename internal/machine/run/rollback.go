package run

import (
	"cmp"
	"context"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
)

// NewestGood selects the last good generation before the current one.
const NewestGood = commit.NewestGood

// RollbackOptions are the generation to go back to.
type RollbackOptions struct {
	Root    string   // generations and targets are below it, and no unit is touched; "" is this node
	To      int      // a generation, NewestGood, or 0 for as before prelet
	Release bool     // go nowhere: release a pinned generation, and held plans
	Request []string // the command line that prelet-apply.service runs in place of this process
}

// Rollback goes back to an earlier generation, and holds the site's plans until a release.
func Rollback(ctx context.Context, e *machine.Env, o RollbackOptions) (commit.Result, error) {
	h, err := e.HostOf(o.Root, true)
	if err != nil {
		return commit.Result{}, err
	}
	defer h.Units.Close()

	if o.Release {
		store, err := h.Lock(ctx)
		if err != nil {
			return commit.Result{}, err
		}
		defer store.Close()

		return release(ctx, e, h, store)
	}

	if !h.IsBelow() {
		elsewhere, err := delegate(ctx, e, h, nil, o.Request)
		switch {
		case err != nil:
			return commit.Result{}, err
		case elsewhere != nil:
			return *elsewhere, nil
		}
	}
	store, err := h.LockNode(ctx)
	if err != nil {
		return commit.Result{}, err
	}
	defer store.Close()
	if h.IsBelow() {
		gen, goal, err := commit.RollBackBelowRoot(store, o.To, generation.ByHand)
		if err != nil {
			return commit.Result{}, err
		}
		ended := commit.Result{Changed: true, To: goal}
		ended.Outcome.Generation = gen
		r := nodeRun{Run: &commit.Run{Store: store, Result: ended}, env: e, host: h, follows: (*nodeRun).ofRoot}
		r.conclude(ctx)

		return ended, nil
	}

	return rollbackNode(ctx, e, h, store, o)
}

func release(ctx context.Context, e *machine.Env, h *machine.Host, store *generation.Store) (commit.Result, error) {
	if err := activation.Newer(store); err != nil {
		return commit.Result{}, err
	}
	_, _, isHeld := store.Pinned()
	if plans, err := store.HeldAll(); err != nil || len(plans) > 0 {
		isHeld = true
	}
	if j, err := store.Journal(); err != nil || j != nil && j.HoldPlan != "" {
		isHeld = true
	}
	if err := store.Release(); err != nil {
		return commit.Result{}, err
	}
	if !h.IsBelow() && !h.IsOff() { // after prelet=off the report says that, as before
		r := nodeRun{Run: &commit.Run{Store: store}, env: e, host: h, follows: (*nodeRun).ofRelease}
		r.conclude(ctx)
	}

	return commit.Result{Released: true, WasHeld: isHeld}, nil
}

func rollbackNode(
	ctx context.Context, e *machine.Env, h *machine.Host, store *generation.Store, o RollbackOptions,
) (commit.Result, error) {
	if err := cmp.Or(activation.Newer(store), store.ReadOnly()); err != nil {
		return commit.Result{}, err
	}
	// A mistyped number is not a run: status keeps the last run. An interrupted commit is finished first.
	was, err := store.Journal()
	if err == nil && !was.IsUnfinished() {
		if _, err := commit.FindTarget(store, o.To); err != nil {
			return commit.Result{}, err
		}
	}
	e.HideKept(store, o.To)
	r := begin(e, h, store, false)
	goal := r.RollBack(ctx, o.To)
	r.conclude(ctx)
	if err := faultOf(r.Result); err != nil {
		return commit.Result{}, err
	}
	r.To = goal

	return r.Result, nil
}
