package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app/looking"
	"github.com/prelet/prelet/internal/printer"
)

func (a *cli) bundle() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "bundle FILE",
		GroupID: "node",
		Args:    requireArgs(1, "the bundle to write: NAME.tar.gz, or - for standard output"),
		Short:   "Collect what a report of a bug needs",
		Long: `Writes an archive with a recording of this node, its plan, the outputs of doctor, history,
detectors list and analyze, the status of the last run, and the journal of prelet and the kubelet in this boot.
A part that fails is named in README.txt of the archive, and the others are collected.

It contains no secrets, and no serial numbers, uuids or MAC addresses.
What has the form of a secret is hidden, too: keys, tokens, passwords in URLs, Authorization headers.
It contains host names, IP addresses, the site and ConfigMaps: read it before you send it.`,
		Example: "  prelet bundle /tmp/node17.tar.gz\n  ssh root@node17 prelet bundle - > node17.tar.gz",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			isStdout := args[0] == "-"
			a.printed = isStdout // a failure has no document there
			got, err := looking.Bundle(ctx, a.env(), looking.BundleOptions{
				Where:  w.Where,
				File:   args[0],
				Stdout: printer.Unscreened(a.stdout),
				Run:    a.runQuietly,
			})
			if err != nil {
				return err
			}
			for _, line := range got.Missing {
				a.printNotice("not in the bundle: " + line)
			}
			if !isStdout {
				_, _ = fmt.Fprintf(a.stderr, "Wrote %s with %d files. Read it before you send it.\n",
					args[0], len(got.Parts))
			}
			return nil
		}),
	}
	w.addPlaceFlags(c)
	return c
}

// runQuietly runs a command line with the redactor of this one, and returns its output without printing it.
func (a *cli) runQuietly(args []string) looking.Output {
	var stdout, stderr bytes.Buffer
	inner := &cli{
		redactor:  a.secrets(),
		detectors: a.detectors,
		stdout:    &stdout,
		stderr:    &stderr,
		getenv:    a.getenv,
		on:        a.on,
	}
	code := inner.execute(args).code

	return looking.Output{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}
