package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/lang/origin"
)

func (a *cli) recover() *cobra.Command {
	var root string
	c := &cobra.Command{
		Use:     "recover",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Finish or undo what a crash left",
		Long: `Works without a network.
Every command that writes does it first. This one is for scripts,
and for a node where prelet was killed and has not run again.
Afterwards all files are of one generation, and the kubelet may start on it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := stopWriteOnSignal(c.Context())
			defer stop()
			was, err := a.env().Recover(ctx, root)
			if err != nil {
				return err
			}
			a.printRecovered(was.Journal)
			for _, path := range was.Differing {
				fmt.Fprintf(
					a.stdout,
					"%s is not as generation %d made it; prelet run puts it in place, or adopts it.\n",
					path,
					was.InPlace,
				)
			}
			if was.Lost != "" {
				fmt.Fprintln(a.stdout, origin.Capitalize(was.Lost)+".")
			}
			return nil
		},
	}
	c.Flags().
		StringVar(&root, "root", "", "generations and targets below `DIR`; no unit is touched")
	return c
}

// printRecovered prints the interrupted change; was is nil if none was interrupted.
func (a *cli) printRecovered(was *generation.Journal) {
	switch {
	case was == nil:
		fmt.Fprintln(a.stdout, "Nothing was interrupted.")
	case was.Phase == generation.PhaseVerify:
		fmt.Fprintf(a.stdout, "Nothing was interrupted; generation %d awaits its verdict.\n", was.Gen)
	default:
		fmt.Fprintf(
			a.stdout,
			"Finished what was interrupted: the journal said %s of generation %d.\n",
			was.Phase,
			was.Gen,
		)
	}
}
