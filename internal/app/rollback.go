package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// NewestGood selects the last good generation before the current one.
const NewestGood = -1

// RollbackOptions are the generation to go back to.
type RollbackOptions struct {
	Root    string   // generations and targets are below it, and no unit is touched; "" is this node
	To      int      // a generation, NewestGood, or 0 for as before prelet
	Release bool     // go nowhere: release a pinned generation, and held plans
	Request []string // the command line that prelet-apply.service runs in place of this process
}

// RolledBack is the result of going back: the document of `rollback -o json`.
type RolledBack struct {
	FormatVersion int                `json:"format_version"`
	Released      bool               `json:"released"`          // the pinned generation and held plans; that was all
	Generation    int                `json:"generation"`        // the new one
	To            int                `json:"restores"`          // whose contents it has; 0: as before prelet
	Verdict       activation.Verdict `json:"verdict,omitempty"` // good, pending, unknown; absent below a root
}

// Rollback goes back to an earlier generation, and holds the site's plans until a release.
func (e *Env) Rollback(ctx context.Context, o RollbackOptions) (RolledBack, error) {
	h, err := e.hostOf(ctx, o.Root, true)
	if err != nil {
		return RolledBack{}, err
	}
	defer h.Units.Close()

	if o.Release {
		store, err := h.lock(ctx)
		if err != nil {
			return RolledBack{}, addMessages(err)
		}
		defer store.Close()

		return release(store)
	}

	if !h.isBelow() {
		if err := e.delegate(ctx, h, nil, o.Request); err != nil {
			return RolledBack{}, err
		}
	}
	store, err := h.lockNode(ctx)
	if err != nil {
		return RolledBack{}, err
	}
	defer store.Close()
	if h.isBelow() {
		return rollbackRoot(store, o)
	}

	return e.rollbackNode(ctx, h, store, o)
}

func release(store *generation.Store) (RolledBack, error) {
	if err := activation.Newer(store); err != nil {
		return RolledBack{}, addMessages(err)
	}
	if err := store.Release(); err != nil {
		return RolledBack{}, addMessages(err)
	}
	return RolledBack{FormatVersion: 1, Released: true}, nil
}

// findTarget returns the generation to go back to.
func findTarget(store *generation.Store, to int) (int, error) {
	all, err := store.List()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, failure(fault.Usage, "cannot roll back: no generation is in place")
	}
	now := all[len(all)-1]
	switch {
	case to == now.Gen:
		return 0, failure(fault.Usage, "generation %d is in place", to)
	case to == NewestGood:
		return findNewestGood(store, all)
	case to != 0 && !slices.ContainsFunc(all, isReadable(to)):
		return 0, failure(fault.Usage,
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
	return 0, failure(fault.Usage,
		"no earlier generation was good; name one (prelet history), or 0 for as before prelet")
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

// isReadable returns a function that reports whether a generation has the number gen and is not damaged.
func isReadable(gen int) func(generation.Info) bool {
	return func(g generation.Info) bool {
		return g.Gen == gen && g.Status != generation.StatusDamaged
	}
}

// rollbackRoot goes back below a root, where no unit runs.
func rollbackRoot(store *generation.Store, o RollbackOptions) (RolledBack, error) {
	if _, err := store.Recover(); err != nil {
		return RolledBack{}, addMessages(err)
	}
	if err := activation.Newer(store); err != nil {
		return RolledBack{}, addMessages(err)
	}
	to, err := findTarget(store, o.To)
	if err != nil {
		return RolledBack{}, addMessages(err)
	}
	cur, err := store.Current()
	if err != nil {
		return RolledBack{}, addMessages(err)
	}
	gen, err := commit.PinAndRollBack(store, to, generation.ByHand, func() (int, error) {
		return store.Rollback(cur.Gen, to, generation.ByHand, false)
	})
	if err == nil {
		err = store.Good(gen, nil)
	}
	if err != nil {
		return RolledBack{}, addMessages(err)
	}
	return RolledBack{FormatVersion: 1, Generation: gen, To: to}, nil
}

func (e *Env) rollbackNode(
	ctx context.Context, h *Host, store *generation.Store, o RollbackOptions,
) (RolledBack, error) {
	if err := cmp.Or(activation.Newer(store), store.ReadOnly()); err != nil {
		return RolledBack{}, addMessages(err)
	}
	// A mistyped number is not a run: status keeps the last run. An interrupted commit is finished first.
	was, err := store.Journal()
	if err == nil && !was.IsUnfinished() {
		if _, err := findTarget(store, o.To); err != nil {
			return RolledBack{}, addMessages(err)
		}
	}
	rep := e.startReport(h, false)
	r := h.newRun(store, rep)
	var goal int
	res := r.RollBack(ctx, generation.ByHand, func() (int, error) {
		goal, err = findTarget(store, o.To)
		return goal, err
	})
	e.finishReport(ctx, h, r, res, commit.Ending{Code: res.Code, Summary: res.Summary})
	if results, ok := h.readConditionResults(); ok {
		e.sayError(h.writeConditionResults(results))
		_ = store.Unlock() // annotations may have done so
		e.settleConditions(ctx, h, res.Code != "")
	}
	if err := faultOf(res); err != nil {
		return RolledBack{}, err
	}
	return RolledBack{
		FormatVersion: 1,
		Generation:    res.Outcome.Generation,
		To:            goal,
		Verdict:       res.Outcome.Verdict,
	}, nil
}
