package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

func (a *cli) record() *cobra.Command {
	var w where
	var whole bool
	c := &cobra.Command{
		Use:     "record FILE",
		GroupID: "node",
		Args:    requireArgs(1, "the recording to write: NAME.prelet or NAME.prelet.gz, or - for standard output"),
		Short:   "Record everything that a run reads",
		Long: `Does all of a run but the commit, and writes everything that it read to FILE.
From this recording, any machine can make the same plan (prelet plan --from FILE).
With - it writes the recording to standard output, uncompressed, and nothing else there.

It contains no secrets.
Serial numbers, uuids, MAC addresses and GUIDs are left out without --with-identity.`,
		Example: "  prelet record /tmp/node17.prelet.gz\n" +
			"  ssh root@node17 prelet record - > fleet/node17.prelet",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			isStdout := args[0] == "-"
			a.printed = isStdout // a failure has no document there
			r, err := planning.Record(ctx, a.env(), planning.RecordOptions{
				Request:      w.Request,
				File:         args[0],
				Stdout:       printer.Unscreened(a.stdout),
				WithIdentity: whole,
			})
			if err != nil {
				return err
			}
			a.printDiagnostics(r.Site, printer.Sorted(r.Diagnostics))
			if r.Lacks != nil {
				a.printNotice("with this site, the plan of this recording is not complete: " + origin.OneLine(r.Lacks))
			}
			if !isStdout {
				_, _ = io.WriteString(a.stderr, "Recorded "+args[0]+". Try: prelet plan --from "+args[0]+"\n")
			}
			return quit(origin.Code(r.Diagnostics))
		}),
	}
	w.addPlaceFlags(c)
	a.readRepository(c, &w.Request, lang.OS())
	w.addKubeletVersionFlag(c)
	c.Flags().
		BoolVar(&whole, "with-identity", false, "keep serial numbers, uuids, machine id, MAC addresses and GUIDs")
	return c
}

// requireArgs refuses no argument, and more than most. what describes them.
func requireArgs(most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > most {
			return fault.Usage.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// requireBoth refuses all but two arguments. what describes them.
func requireBoth(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fault.Usage.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}
