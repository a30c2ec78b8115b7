package main

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
)

func (a *cli) detect() *cobra.Command {
	var w where
	var topology bool
	c := &cobra.Command{Use: "detect", GroupID: "node", Args: noArgument, Short: "Show the hardware as sites see it",
		Long: "Looks at this machine's hardware, or at a recorded one's. The names are those of stage.detect-hw.NAME in a site.\n" +
			"With a site (that of this node, or --config) its detectors are asked too, with what it grants them.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if topology && asJSON {
				return failure(fault.Usage, "--topology is a picture for people; -o json has the same facts, with the node of each device under numa")
			}
			ctx, stop := stoppable(c.Context())
			defer stop()
			found, err := a.env().Detect(ctx, w.Where)
			if err != nil {
				return err
			}
			if found.Facts == nil {
				a.say(found.Site, present.Sorted(found.Diagnostics))
				return quit(origin.Code(found.Diagnostics))
			}
			if asJSON {
				err = a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					return e.Encode(present.FactsDocument(found.Raw, *found.Facts, found.Degraded, found.Detectors, found.Diagnostics))
				})
			} else {
				// What is unknown stands below the facts already.
				a.say(found.Site, present.Sorted(slices.DeleteFunc(found.Diagnostics, func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.HardwareDegraded })))
				show := present.FactsText
				if topology {
					show = present.TopologyText
				}
				err = a.print(func(o io.Writer) error {
					if err := show(o, *found.Facts, present.StyleOf(a.stdout, a.getenv)); err != nil {
						return err
					}
					return present.DetectorsText(o, found.Detectors, present.StyleOf(a.stdout, a.getenv))
				})
			}
			if err != nil {
				return err
			}
			return quit(origin.Code(found.Diagnostics))
		}}
	c.Flags().StringArrayVar(&w.Config, "config", nil, "site `PATH` whose detectors are asked, in place of that of this node (repeatable)")
	c.Flags().StringVar(&w.Root, "root", "", "look for the site, its detectors and their locks below `DIR`")
	c.Flags().StringVar(&w.Hardware, "hardware", "", "a recorded machine: a tree, or a snapshot of ghw or hwloc, at `PATH`; detectors are asked about a tree, with --config")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`text` or json")
	c.Flags().BoolVar(&topology, "topology", false, "show a tree by NUMA node: which devices are near which CPUs")
	return c
}
