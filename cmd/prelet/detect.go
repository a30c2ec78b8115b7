package main

import (
	"context"
	"io"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/model/origin"
)

func (a *cli) detect() *cobra.Command {
	var w where
	var topology bool
	c := &cobra.Command{
		Use:     "detect",
		GroupID: "node",
		Args:    refuseArguments,
		Short:   "Show the hardware as sites see it",
		Long: `Shows the hardware of this machine, or of a recorded one.
The names are those of stage.detect-hw.NAME in a site.
With a site (this node's, or --config) its detectors run too, with the permissions that it grants.
With --hardware, detectors are asked about a tree, and only with --config.`,
		Example: "  prelet detect\n  prelet detect --topology\n  prelet detect -o json > node17.json\n" +
			"  prelet detect --hardware ./machines/dgx",
		RunE: stopOnSignal(func(ctx context.Context, _ []string) error {
			asJSON := w.output.isJSON()
			if topology && asJSON {
				return fault.Usage.Errorf("--topology is a picture for people; " +
					"-o json has the same facts, with the node of each device under numa")
			}
			found, err := sites.Detect(ctx, a.env(), w.Request)
			if err != nil {
				return err
			}
			code := origin.Code(found.Diagnostics)

			if asJSON {
				err = a.printJSON(printer.FactsDocument(found.Detected, found.Diagnostics))
			} else {
				err = a.printFacts(found, topology)
			}
			if err != nil {
				return err
			}
			return quit(code)
		}),
	}
	w.addSiteFlags(c)
	addRootFlag(c, &w.Root)
	w.addHardwareFlag(c)
	c.Flags().
		BoolVar(&topology, "topology", false, "show a tree by NUMA node: which devices are near which CPUs")
	return c
}

// printFacts prints facts and what detectors found; with topology, the facts by NUMA node.
func (a *cli) printFacts(found sites.Detected, topology bool) error {
	a.printDiagnostics(found.Site, printer.Sorted(removeUnknownFacts(found.Diagnostics)))

	style := printer.StyleOf(a.stdout, a.getenv)
	show := printer.FactsText
	if topology {
		show = printer.TopologyText
	}
	return a.print(func(o io.Writer) error {
		if err := show(o, *found.Facts, style); err != nil {
			return err
		}
		return printer.DetectorsText(o, found.Detectors, style)
	})
}

// removeUnknownFacts drops the diagnostics of facts that could not be read: they are printed below the facts.
func removeUnknownFacts(diags hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range diags {
		if origin.CodeOf(d) != fault.HardwareDegraded {
			out = append(out, d)
		}
	}
	return out
}
