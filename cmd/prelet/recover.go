package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/machine/run"
)

func (a *cli) recover() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "recover",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Finish or undo what a crash left",
		Long: `Works without a network.
Every command that writes does it first. This one is for scripts,
and for a node where prelet was killed and has not run again.
Afterwards all files are of one generation, and the kubelet may start on it.`,
		Example: "  prelet recover\n  prelet recover --root /mnt/node17 -o json",
		RunE: stopWriteOnSignal(func(ctx context.Context, _ []string) error {
			was, err := run.Recover(ctx, a.env(), w.Root)
			if err != nil {
				return err
			}
			return a.show(w.output.isJSON(), "recover", was)
		}),
	}
	w.addStateFlags(c)
	return c
}
