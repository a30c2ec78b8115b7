package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/generation"
)

func (a *cli) recover() *cobra.Command {
	w := where{output: "text"}
	c := &cobra.Command{Use: "recover", GroupID: "node", Args: noArgument, Short: "Finish or undo what a crash left",
		Long: "Needs no network. Every command that writes does it first; this one is for scripts, and for a node where prelet was\n" +
			"killed and nothing has started it since. Afterwards every file is of one generation, and the kubelet may start on it.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.Check(); err != nil {
				return err
			}
			ctx, stop := writing(c.Context())
			defer stop()
			if w.Root != "" {
				if err := a.env().Elsewhere(w.Root); err != nil {
					return err
				}
				store, err := a.env().LockRoot(ctx, w.Where)
				if err != nil {
					return err
				}
				defer store.Close()
				was, err := store.Journal()
				if err == nil {
					_, err = store.Recover()
				}
				if err != nil {
					return a.storeFailure(err)
				}
				a.recovered(was)
				return nil
			}
			h := a.env().Host(ctx)
			defer h.Units.Close()
			store, err := h.LockNode(ctx)
			if err != nil {
				return err
			}
			defer store.Close()
			was, err := store.Journal()
			if err == nil && (was == nil || was.Phase == generation.PhaseVerify) {
				_, err = store.Recover() // what was staged and never committed
			}
			if err != nil {
				return a.storeFailure(err)
			}
			if was != nil && was.Phase != generation.PhaseVerify {
				if err := a.finishInterrupted(ctx, h, store); err != nil {
					return err
				}
			}
			a.recovered(was)
			return nil
		}}
	c.Flags().StringVar(&w.Root, "root", "", "generations and targets below `DIR`; no unit is touched")
	return c
}

// finishInterrupted brings every file to one generation, opens the gate on it, and judges it.
func (a *cli) finishInterrupted(ctx context.Context, h *app.Host, store *generation.Store) error {
	rep := a.env().Report(h, true)
	r := &apply.Run{Store: store, Machine: h.Machine(store, rep), Report: rep}
	res := r.Verify(ctx)
	if _, err := rep.Finish(res.Code.Exit(), res.Summary); err != nil {
		a.complain(err.Error())
	}
	if res.Err != nil {
		return a.storeFailure(res.Err)
	}
	if res.Code != "" {
		a.complain(res.Summary)
	}
	return quit(res.Code)
}

func (a *cli) recovered(was *generation.Journal) {
	switch {
	case was == nil:
		fmt.Fprintln(a.stdout, "Nothing was interrupted.")
	case was.Phase == generation.PhaseVerify:
		fmt.Fprintf(a.stdout, "Nothing was interrupted; generation %d awaits its verdict.\n", was.Gen)
	default:
		fmt.Fprintf(a.stdout, "Finished what was interrupted: the journal said %s of generation %d.\n", was.Phase, was.Gen)
	}
}
