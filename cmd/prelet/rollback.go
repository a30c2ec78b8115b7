package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/run"
)

func (a *cli) rollback() *cobra.Command {
	var w where
	var release bool
	c := &cobra.Command{
		Use:     "rollback [N]",
		GroupID: "node",
		Args:    cobra.MaximumNArgs(1),
		Short:   "Roll back to an earlier generation and pin it",
		Long: `Makes a new generation with the contents of generation N,
by default of the last good one before this; 0 is the state before prelet.
The generation is pinned: no plan is applied, changed ones included, until --release.
prelet history lists the generations.`,
		Example: "  prelet rollback\n  prelet rollback 12\n  prelet rollback --release && prelet run",
		RunE: stopWriteOnSignal(func(ctx context.Context, args []string) error {
			to := run.NewestGood
			if len(args) == 1 {
				n, err := strconv.Atoi(args[0])
				if err != nil || n < 0 {
					return fault.Usage.Errorf(
						"%q is not the number of a generation; prelet history lists them", args[0])
				}
				to = n
			}
			if release && len(args) == 1 {
				return fault.Usage.Errorf("either a generation or --release")
			}
			back, err := run.Rollback(ctx, a.env(), run.RollbackOptions{
				Root:    w.Root,
				To:      to,
				Release: release,
				Request: append([]string{"rollback", "-o", w.output.name}, args...),
			})
			switch {
			case err != nil:
				return err
			case back.IsPrinted:
				return a.endElsewhere(back)
			}
			return a.show(w.output.isJSON(), "rollback", rolledBack{
				FormatVersion: 1,
				Released:      back.Released,
				WasHeld:       back.WasHeld,
				Generation:    back.Outcome.Generation,
				To:            back.To,
				Verdict:       back.Outcome.Verdict,
			})
		}),
	}
	c.Flags().
		BoolVar(&release, "release", false, "release the pinned generation and held plans")
	w.addStateFlags(c)
	return c
}

// rolledBack is the document of `rollback -o json`.
type rolledBack struct {
	FormatVersion int                `json:"format_version"`
	Released      bool               `json:"released"`          // the pinned generation and held plans; that was all
	WasHeld       bool               `json:"-"`                 // with Released: something was pinned or held
	Generation    int                `json:"generation"`        // the new one
	To            int                `json:"restores"`          // whose contents it has; 0: as before prelet
	Verdict       activation.Verdict `json:"verdict,omitempty"` // good, pending, unknown; absent below a root
}
