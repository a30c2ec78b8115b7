package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
)

func (a *cli) bundle() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "bundle FILE",
		GroupID: "node",
		Args:    requireArgs(1, "the bundle to write: NAME.tar.gz, or - for standard output"),
		Short:   "Collect what a report of a bug needs",
		Long: `Writes an archive with a recording of this node, the status and the metrics of the last run,
and the journal of prelet and the kubelet in this boot, in journalctl's export format.
A part that cannot be read is named in missing.txt of the archive.

It contains no secrets, and no serial numbers, uuids or MAC addresses.
What has the form of a secret is hidden, too: keys, tokens, passwords in URLs, Authorization headers.
It contains host names, IP addresses, the site and ConfigMaps: read it before you send it.`,
		Example: "  prelet bundle /tmp/node17.tar.gz\n  ssh root@node17 prelet bundle - > node17.tar.gz",
		RunE: finishOnSignal(func(ctx context.Context, args []string) error {
			isStdout := args[0] == "-"
			a.printed = isStdout // a failure has no document there
			missing, err := inspect.Bundle(ctx, a.env(), inspect.BundleOptions{
				Request: w.Request,
				File:    args[0],
				Stdout:  printer.Unscreened(a.stdout),
			})
			if err != nil {
				return err
			}
			for _, line := range missing {
				a.printNotice("not in the bundle: " + line)
			}
			if !isStdout {
				_, _ = fmt.Fprintf(a.stderr, "Wrote %s. Read it before you send it.\n", args[0])
			}
			return nil
		}),
	}
	w.addPlaceFlags(c)
	return c
}
