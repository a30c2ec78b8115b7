package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/fault"
)

func (a *cli) rollback() *cobra.Command {
	var w app.Where
	var output format
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
		RunE: func(c *cobra.Command, args []string) error {
			to := app.NewestGood
			if len(args) == 1 {
				n, err := strconv.Atoi(args[0])
				if err != nil || n < 0 {
					return failure(fault.Usage,
						"%q is not the number of a generation; prelet history lists them", args[0])
				}
				to = n
			}
			if release && len(args) == 1 {
				return failure(fault.Usage, "either a generation or --release")
			}
			ctx, stop := stopWriteOnSignal(c.Context())
			defer stop()
			back, err := a.env().Rollback(ctx, app.RollbackOptions{
				Root:    w.Root,
				To:      to,
				Release: release,
				Request: append([]string{"rollback", "-o", output.name}, args...),
			})
			if err != nil {
				return err
			}
			return a.endRollback(back, output.isJSON())
		},
	}
	c.Flags().
		BoolVar(&release, "release", false, "release the pinned generation and held plans")
	addRootFlag(c, &w.Root)
	output.addFlag(c, "text", "json")
	return c
}

// rolledBack is the document of `rollback -o json`.
type rolledBack struct {
	FormatVersion int    `json:"format_version"`
	Released      bool   `json:"released"`          // the pinned generation and held plans; there is nothing else
	Generation    int    `json:"generation"`        // the new one
	Restores      int    `json:"restores"`          // the generation whose contents it has; 0: as before prelet
	Verdict       string `json:"verdict,omitempty"` // good, pending, unknown; absent below --root
}

// endRollback prints the result of going back and returns how the command ends.
func (a *cli) endRollback(back app.RolledBack, asJSON bool) error {
	switch {
	case back.Reply != nil:
		return a.printReply(back.Reply)
	case asJSON:
		return a.printJSON(rolledBack{1, back.Released, back.Generation, back.To, string(back.Verdict)})
	case back.Released:
		fmt.Fprintln(a.stdout, "Released. The next run applies the site again: prelet run")
		return nil
	}
	what := fmt.Sprintf("it has the contents of generation %d", back.To)
	if back.To == 0 {
		what = "everything is as before prelet"
	}
	switch back.Verdict {
	case activation.Good:
		what += ", and the kubelet is healthy on it"
	case activation.Pending:
		what += "; prelet-verify judges it"
	case activation.Unknown:
		what += "; whether the kubelet is healthy is not known (see prelet verify)"
	}
	fmt.Fprintf(a.stdout, "Generation %d is in place; %s.\n"+
		"The site is not applied until prelet rollback --release.\n", back.Generation, what)
	return nil
}
