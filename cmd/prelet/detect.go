package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
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
			if err := w.Check(); err != nil {
				return err
			}
			if topology && asJSON {
				return failure(fault.Usage, "--topology is a picture for people; -o json has the same facts, with the node of each device under numa")
			}
			s, err := a.detectorSite(&w)
			if err != nil {
				return err
			}
			redactor := value.NewRedactor()
			a.redactor = redactor
			l := live.New(live.Options{Hardware: w.Hardware, Root: w.Root, Site: s, Redactor: redactor, Credentials: live.SystemCredentials(a.getenv),
				Detectors: a.env().DetectorHost(w.Where)})
			defer l.Close()
			ctx, stop := stoppable(c.Context())
			defer stop()
			found, diags := boot.Detect(ctx, s, l)
			if err := app.Stopped(ctx); err != nil {
				return err
			}
			var failed *fault.Fault
			switch {
			case errors.As(found.Failed, &failed):
				return failure(fault.HardwareFailed, "the hardware cannot be read: %s", failed.Why)
			case found.Facts == nil:
				a.say(s, present.Sorted(diags))
				return quit(origin.Code(diags))
			}
			if asJSON {
				err = a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					return e.Encode(present.FactsDocument(found.Raw, *found.Facts, found.Degraded, found.Detectors, diags))
				})
			} else {
				// What is unknown stands below the facts already.
				a.say(s, present.Sorted(slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.HardwareDegraded })))
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
			return quit(origin.Code(diags))
		}}
	c.Flags().StringArrayVar(&w.Config, "config", nil, "site `PATH` whose detectors are asked, in place of that of this node (repeatable)")
	c.Flags().StringVar(&w.Root, "root", "", "look for the site, its detectors and their locks below `DIR`")
	c.Flags().StringVar(&w.Hardware, "hardware", "", "a recorded machine: a tree, or a snapshot of ghw or hwloc, at `PATH`; detectors are asked about a tree, with --config")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`text` or json")
	c.Flags().BoolVar(&topology, "topology", false, "show a tree by NUMA node: which devices are near which CPUs")
	return c
}

// detectorSite is the site whose detectors are asked. One that was not named and cannot be used asks for none.
func (a *cli) detectorSite(w *where) (*site.Site, error) {
	if w.Hardware != "" && len(w.Config) == 0 {
		return &site.Site{}, nil
	}
	s, diags := w.Load(nil, version)
	switch {
	case !diags.HasErrors():
		return s, nil
	case len(w.Config) > 0:
		a.say(s, present.Sorted(diags))
		return nil, quit(origin.Code(diags))
	case !slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.NoSite }):
		a.complain("the site of this node has errors, so its detectors are not asked: `prelet validate` shows them")
	}
	return &site.Site{}, nil
}
