package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) record() *cobra.Command {
	var w where
	var whole bool
	c := &cobra.Command{
		Use: "record FILE", GroupID: "node",
		Args:  exactArgs(1, "the recording to write: NAME.prelet or NAME.prelet.gz"),
		Short: "Keep all that a run reads, as a recording",
		Long: "Runs everything but apply, and keeps every question and its answer: the plan can then be made again " +
			"on any machine\n" +
			"(`prelet plan --from FILE`). Secrets are not in it. Serial numbers, uuids, MAC addresses and GUIDs are " +
			"left out unless asked for.",
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := stopOnSignal(c.Context())
			defer stop()
			r, err := a.env().Record(ctx, app.RecordOptions{Where: w.Where, File: args[0], WithIdentity: whole})
			if err != nil {
				return err
			}
			a.say(r.Site, present.Sorted(r.Diagnostics))
			if r.Written {
				_, _ = io.WriteString(a.stderr, "Recorded "+args[0]+". Try: prelet plan --from "+args[0]+"\n")
			}
			return quit(origin.Code(r.Diagnostics))
		},
	}
	w.addNodeFlags(c)
	_ = c.Flags().MarkHidden("output")
	c.Flags().BoolVar(&whole, "with-identity", false, "keep serial numbers, uuids, machine id, MAC addresses and GUIDs")
	return c
}

// exactArgs is cobra's ExactArgs with a message that names what is missing.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return failure(fault.Usage, "%d argument needed: %s", n, what)
		}
		return nil
	}
}
