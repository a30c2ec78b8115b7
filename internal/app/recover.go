package app

import (
	"context"

	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
)

// Recovered is the result of Recover.
type Recovered struct {
	Journal   *generation.Journal // that was found; nil where nothing was under way
	InPlace   int                 // the generation in place; 0 for none
	Differing []string            // files that are not as that one made them, although nothing is under way
	Lost      string              // that the generation in place was lost, and what to do; "" when it was not
}

// Recover finishes or undoes what a crash left, below a root or, where that is "", on this node.
func (e *Env) Recover(ctx context.Context, root string) (Recovered, error) {
	w := Where{Root: root}
	if err := w.check(); err != nil {
		return Recovered{}, err
	}
	if w.Root != "" {
		return e.recoverRoot(ctx, w)
	}

	h := e.host(ctx)
	defer h.Units.Close()
	store, err := h.lockNode(ctx)
	if err != nil {
		return Recovered{}, err
	}
	defer store.Close()

	was, err := store.Journal()
	if err == nil && (was == nil || was.Phase == generation.PhaseVerify || store.Outdated(was)) {
		_, err = h.machine(store, nil).Recover(ctx) // what was staged and never committed
	}
	if err != nil {
		return Recovered{}, addMessages(err)
	}
	if was != nil && was.Phase != generation.PhaseVerify {
		return Recovered{Journal: was}, e.finishInterrupted(ctx, h, store)
	}
	r, err := describeRecovered(store, was)
	r.Lost = h.machine(store, nil).WhyLost(ctx)

	return r, err
}

// describeRecovered returns what is to be said where nothing was interrupted. Somebody may have moved a journal aside in
// the middle of a publish.
func describeRecovered(store *generation.Store, was *generation.Journal) (r Recovered, err error) {
	r.Journal = was
	if cur, err := store.Current(); err == nil && cur != nil {
		r.InPlace = cur.Gen
	}
	r.Differing, err = store.Differing()

	return r, addMessages(err)
}

func (e *Env) recoverRoot(ctx context.Context, w Where) (Recovered, error) {
	if err := e.refuseRunningRoot(w.Root); err != nil {
		return Recovered{}, err
	}
	store, err := e.lockRoot(ctx, w)
	if err != nil {
		return Recovered{}, err
	}
	defer store.Close()

	was, err := store.Journal()
	if err == nil {
		_, err = store.Recover()
	}
	if err != nil {
		return Recovered{}, addMessages(err)
	}
	return describeRecovered(store, was)
}

// finishInterrupted brings every file to one generation, opens the gate on it, and judges it.
func (e *Env) finishInterrupted(ctx context.Context, h *Host, store *generation.Store) error {
	rep := e.startReport(h, true)
	r := &apply.Run{Store: store, Machine: h.machine(store, rep), Report: rep}
	res := r.Verify(ctx)
	if _, err := rep.Finish(res.Code, res.Summary); err != nil {
		e.Say(err.Error())
	}
	switch {
	case res.Err != nil:
		return addMessages(res.Err)
	case res.Code != "":
		return &fault.Fault{Code: res.Code, Summary: res.Summary}
	}
	return nil
}
