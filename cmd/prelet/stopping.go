package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/machine/run"
)

// stopping is for prelet.service, which runs it as ExecStop=.
func (a *cli) stopping() *cobra.Command {
	return &cobra.Command{
		Use:    "stopping",
		Hidden: true,
		Args:   refuseArguments,
		Short:  "Make the conditions of the Node False, as prelet.service does when it stops",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			run.ReportStop(ctx, a.env())
			return nil
		}),
	}
}
