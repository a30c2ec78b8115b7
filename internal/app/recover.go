package app

import (
	"context"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// Recover finishes or undoes what a crash left, below a root or, where that is "", on this node. It returns the journal
// that it found; nil where nothing was under way.
func (e *Env) Recover(ctx context.Context, root string) (*generation.Journal, error) {
	w := Where{Root: root}
	if err := w.check(); err != nil {
		return nil, err
	}
	if w.Root != "" {
		return e.recoverRoot(ctx, w)
	}

	h := e.host(ctx)
	defer h.Units.Close()
	store, err := h.lockNode(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()

	was, err := store.Journal()
	if err == nil && (was == nil || was.Phase == generation.PhaseVerify || store.Outdated(was)) {
		_, err = h.machine(store, nil).Recover(ctx) // what was staged and never committed
	}
	if err != nil {
		return nil, addMessages(err)
	}
	if was != nil && was.Phase != generation.PhaseVerify {
		err = e.finishInterrupted(ctx, h, store)
	}
	return was, err
}

func (e *Env) recoverRoot(ctx context.Context, w Where) (*generation.Journal, error) {
	if err := e.refuseRunningRoot(w.Root); err != nil {
		return nil, err
	}
	store, err := e.lockRoot(ctx, w)
	if err != nil {
		return nil, err
	}
	defer store.Close()

	was, err := store.Journal()
	if err == nil {
		_, err = store.Recover()
	}
	return was, addMessages(err)
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
