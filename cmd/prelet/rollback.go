package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

func (a *cli) rollback() *cobra.Command {
	w := where{output: "text"}
	var release bool
	c := &cobra.Command{Use: "rollback [N]", GroupID: "node", Args: cobra.MaximumNArgs(1), Short: "Go back to an earlier generation, and stay there",
		Long: "Makes a new generation with the contents of generation N, by default of the last good one before this; 0 is as before\n" +
			"prelet. No plan is applied from then on, changed ones too, until --release. prelet history lists the generations.",
		Example: "  prelet rollback\n  prelet rollback 12\n  prelet rollback --release && prelet run",
		RunE: func(c *cobra.Command, args []string) error {
			if err := w.Check(); err != nil {
				return err
			}
			to := newestGood
			if len(args) == 1 {
				n, err := strconv.Atoi(args[0])
				if err != nil || n < 0 {
					return failure(fault.Usage, "%s is no number of a generation; prelet history lists them", args[0])
				}
				to = n
			}
			if release && len(args) == 1 {
				return failure(fault.Usage, "either a generation or --release")
			}
			ctx, stop := writing(c.Context())
			defer stop()
			if w.Root != "" {
				if err := a.env().Elsewhere(w.Root); err != nil {
					return err
				}
				return a.rollbackRoot(ctx, w, to, release)
			}
			h := a.env().Host(ctx)
			defer h.Units.Close()
			if release {
				return a.release(ctx, h)
			}
			if r, err := a.env().ViaApply(ctx, h, nil, append([]string{"rollback"}, args...)); err != nil {
				return err
			} else if r != nil {
				return a.replied(r)
			}
			return a.rollbackNode(ctx, h, to)
		}}
	c.Flags().BoolVar(&release, "release", false, "let go of a generation that was chosen by hand, and of held plans")
	c.Flags().StringVar(&w.Root, "root", "", "generations and targets below `DIR`; no unit is touched")
	return c
}

// newestGood stands for the last good generation before the one in place.
const newestGood = -1

const byHand = "prelet rollback"

func (a *cli) release(ctx context.Context, h *app.Host) error {
	store, err := h.Lock(ctx)
	if err != nil {
		return a.storeFailure(err)
	}
	defer store.Close()
	return a.letGo(store)
}

func (a *cli) letGo(store *generation.Store) error {
	if err := store.Release(); err != nil {
		return a.storeFailure(err)
	}
	fmt.Fprintln(a.stdout, "Released. The next run applies the site again: prelet run")
	return nil
}

// target is the generation to go back to.
func target(store *generation.Store, to int) (int, error) {
	all, err := store.List()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, failure(fault.Usage, "there is no generation to go back from")
	}
	now := all[len(all)-1]
	switch {
	case to == now.Gen:
		return 0, failure(fault.Usage, "generation %d is in place", to)
	case to == newestGood:
		for _, g := range slices.Backward(all[:len(all)-1]) {
			if g.Status == generation.StatusGood && g.Gen != now.Restores {
				return g.Gen, nil
			}
		}
		return 0, failure(fault.Usage, "no earlier generation was good; name one (prelet history), or 0 for as before prelet")
	case to != 0 && !slices.ContainsFunc(all, func(g generation.Info) bool { return g.Gen == to && g.Status != generation.StatusDamaged }):
		return 0, failure(fault.Usage, "generation %d is not kept, or cannot be read; prelet history lists those that are", to)
	}
	return to, nil
}

func (a *cli) rollbackRoot(ctx context.Context, w where, to int, release bool) error {
	store, err := a.env().LockRoot(ctx, w.Where)
	if err != nil {
		return err
	}
	defer store.Close()
	if release {
		return a.letGo(store)
	}
	if _, err := store.Recover(); err != nil {
		return a.storeFailure(err)
	}
	if to, err = target(store, to); err != nil {
		return a.storeFailure(err)
	}
	cur, err := store.Current()
	if err != nil {
		return a.storeFailure(err)
	}
	gen, err := apply.Back(store, to, byHand, func() (int, error) { return store.Rollback(cur.Gen, to, byHand, false) })
	if err == nil {
		err = store.Good(gen, nil)
	}
	if err != nil {
		return a.storeFailure(err)
	}
	a.wentBack(gen, to, "")
	return nil
}

func (a *cli) rollbackNode(ctx context.Context, h *app.Host, to int) error {
	store, err := h.LockNode(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	// A number mistyped is no run: status goes on telling of the last one. What was interrupted is finished first.
	if was, err := store.Journal(); err == nil && (was == nil || was.Phase == generation.PhaseVerify) {
		if _, err := target(store, to); err != nil {
			return a.storeFailure(err)
		}
	}
	rep := a.env().Report(h, false)
	r := &apply.Run{Store: store, Machine: h.Machine(store, rep), Report: rep}
	var goal int
	res := r.Back(ctx, byHand, func() (int, error) {
		goal, err = target(store, to)
		return goal, err
	})
	if _, err := rep.Finish(res.Code.Exit(), res.Summary); err != nil {
		a.complain(err.Error())
	}
	if res.Err != nil {
		return a.storeFailure(res.Err)
	}
	if res.Code != "" {
		a.complain(res.Summary)
		return quit(res.Code)
	}
	a.wentBack(res.Outcome.Generation, goal, string(res.Outcome.Verdict))
	return nil
}

func (a *cli) wentBack(gen, to int, verdict string) {
	what := fmt.Sprintf("with the contents of %d", to)
	if to == 0 {
		what = "with everything as before prelet"
	}
	switch verdict {
	case "good":
		what += ", and the kubelet is healthy on it"
	case "pending":
		what += "; prelet-verify judges it"
	case "unknown":
		what += "; whether the kubelet is healthy could not be told (prelet verify)"
	}
	fmt.Fprintf(a.stdout, "Generation %d is in place, %s.\nThe site is not applied until prelet rollback --release.\n", gen, what)
}
