package main

import "github.com/spf13/cobra"

// stopping is for prelet.service, which runs it as ExecStop=.
func (a *cli) stopping() *cobra.Command {
	return &cobra.Command{
		Use:    "stopping",
		Hidden: true,
		Args:   refuseArguments,
		Short:  "Make the conditions of the Node False, as prelet.service does when it stops",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			a.env().ReportStop(ctx)
			return nil
		},
	}
}
