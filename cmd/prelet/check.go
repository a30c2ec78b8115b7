package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/machine/run"
	"github.com/prelet/prelet/internal/model/origin"
)

// check is for prelet-check.service. By hand, plan and verify show more.
func (a *cli) check() *cobra.Command {
	return &cobra.Command{
		Use:    "check",
		Hidden: true,
		Args:   refuseArguments,
		Short:  "Report what a run would change, as prelet-check.service does",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			found, err := run.Check(ctx, a.env())
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, a.redact(origin.Capitalize(found.Summary))+".")

			return quit(found.Code)
		}),
	}
}
