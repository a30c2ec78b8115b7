package app

import (
	"context"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// Recover finishes or undoes what a crash left, below a root or, where that is "", on this node. It returns the journal that
// it found; nil where nothing was under way.
func (e *Env) Recover(ctx context.Context, root string) (*generation.Journal, error) {
	w := Where{Root: root}
	if err := w.Check(); err != nil {
		return nil, err
	}
	if w.Root != "" {
		return e.recoverRoot(ctx, w)
	}

	h := e.Host(ctx)
	defer h.Units.Close()
	store, err := h.LockNode(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()

	was, err := store.Journal()
	if err == nil && (was == nil || was.Phase == generation.PhaseVerify) {
		_, err = store.Recover() // what was staged and never committed
	}
	if err != nil {
		return nil, explained(err)
	}
	if was != nil && was.Phase != generation.PhaseVerify {
		err = e.finishInterrupted(ctx, h, store)
	}
	return was, err
}

func (e *Env) recoverRoot(ctx context.Context, w Where) (*generation.Journal, error) {
	if err := e.elsewhere(w.Root); err != nil {
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
	return was, explained(err)
}

// finishInterrupted brings every file to one generation, opens the gate on it, and judges it.
func (e *Env) finishInterrupted(ctx context.Context, h *Host, store *generation.Store) error {
	rep := e.Report(h, true)
	r := &apply.Run{Store: store, Machine: h.Machine(store, rep), Report: rep}
	res := r.Verify(ctx)
	if _, err := rep.Finish(res.Code.Exit(), res.Summary); err != nil {
		e.Say(err.Error())
	}
	switch {
	case res.Err != nil:
		return explained(res.Err)
	case res.Code != "":
		return &fault.Fault{Code: res.Code, Summary: res.Summary}
	}
	return nil
}
