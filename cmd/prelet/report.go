package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/userfile"
)

func (a *cli) report() *cobra.Command {
	var w where
	var against, file string
	c := &cobra.Command{
		Use:     "report --html FILE",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Write a page about a boot, or about the plan of a fleet",
		Long: `Plans the site on this node, as prelet plan does, and writes one HTML page:
messages, a picture of the machine, coloured by its faults and by the checks of the site, the timeline of the last run
of this boot, labels, taints, flags and fields with what they come from, the differences on the disk, and the facts.
With --from it is the page of a recording, which has no timeline, or of a bundle (.tar.gz), which has one.

With --from FOLDER, and with --against SITE, it is the page of a fleet, as prelet plan groups it:
which effect each group has, each group, and each machine, with filters.

The page needs no network and no other file. It contains host names, IP addresses and the site, but no secrets.
The file is readable by its owner only. - is standard output.

Exit status: that of prelet plan. The page of a plan that failed is written, too.`,
		Example: "  prelet report --html /tmp/node17.html\n" +
			"  ssh root@node17 prelet report --html - > node17.html\n" +
			"  prelet report --from node17.tar.gz --html node17.html\n" +
			"  prelet report --from fleet/ --config ./site --against main --html fleet.html",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			if file == "" {
				return fault.Usage.Errorf("--html FILE needed: the page to write, or - for standard output")
			}

			a.printed = file == "-" // a failure has no document there
			found, err := inspect.Report(ctx, a.env(), inspect.ReportOptions{Request: w.Request, Against: against})
			if err != nil {
				return err
			}
			if err := a.writePage(file, found); err != nil {
				return err
			}
			return quit(found.Code)
		}),
	}
	a.addRecordedFlags(c, &w)
	addPageFlag(c, &file)
	c.Flags().StringVar(&against, "against", "", againstUsage)
	return c
}

func addPageFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "html", "", "write the page to `FILE`, or to standard output for -")
}

// writePage writes the page of a boot or of a fleet to a file, or to standard output for "-".
func (a *cli) writePage(file string, found inspect.Reported) error {
	err := userfile.WritePage(file, printer.Unscreened(a.stdout), func(o io.Writer) error {
		return a.encodePage(o, found)
	})
	if err != nil {
		return err
	}

	if found.Plan != nil {
		a.printDiagnostics(found.Plan.Site, printer.Sorted(found.Plan.Diagnostics))
	}
	if file != "-" {
		fmt.Fprintln(a.stderr, "Wrote "+file+". Open it with a browser.")
	}

	return nil
}

// encodePage writes the page of a boot or of a fleet.
func (a *cli) encodePage(w io.Writer, found inspect.Reported) error {
	if found.Upgrade != nil {
		return printer.UpgradeHTML(w, found.Upgrade, a.secrets())
	}
	if found.Fleet != nil {
		return printer.FleetHTML(w, found.Fleet, a.secrets())
	}

	return printer.BootHTML(w, found.BootView, a.secrets())
}
