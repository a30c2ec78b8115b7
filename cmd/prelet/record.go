package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/replace"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/world"
)

func (a *app) record() *cobra.Command {
	var w where
	var whole bool
	c := &cobra.Command{Use: "record FILE", GroupID: "node", Args: exactly(1, "the recording to write: NAME.prelet or NAME.prelet.gz"), Short: "Keep all that a run reads, as a recording",
		Long: "Runs everything but apply, and keeps every question and its answer: the plan can then be made again on any machine\n" +
			"(`prelet plan --from FILE`). Secrets are not in it. Serial numbers, uuids, MAC addresses and GUIDs are left out unless asked for.",
		RunE: func(c *cobra.Command, args []string) error {
			if !strings.HasSuffix(args[0], ".prelet") && !strings.HasSuffix(args[0], ".prelet.gz") {
				return failure(origin.Usage, "%s: a recording's name ends in .prelet or .prelet.gz", args[0])
			}
			n, diags, err := a.open(w, nil)
			if err != nil {
				return err
			}
			defer n.close()
			if diags.HasErrors() {
				a.say(n.site, present.Sorted(diags))
				return exit(origin.Exit(diags))
			}
			p := n.plan(c.Context(), a.progress())
			p.Diagnostics = append(diags, p.Diagnostics...)
			r := recording(p, header(w))
			if !whole {
				if err := r.Withhold(); err != nil {
					return failure(origin.Internal, "%s", err)
				}
			}
			if err := writeRecording(args[0], r); err != nil {
				return failure(origin.CannotWrite, "%s: %s", args[0], err)
			}
			a.say(n.site, present.Sorted(p.Diagnostics))
			_, _ = io.WriteString(a.stderr, "Recorded "+args[0]+". Try: prelet plan --from "+args[0]+"\n")
			return exit(origin.Exit(p.Diagnostics))
		}}
	w.nodeFlags(c)
	_ = c.Flags().MarkHidden("output")
	c.Flags().BoolVar(&whole, "with-identity", false, "keep serial numbers, uuids, machine id, MAC addresses and GUIDs")
	return c
}

func writeRecording(path string, r *world.Recording) error {
	return replace.With(path, 0o600, func(w io.Writer) error {
		if !strings.HasSuffix(path, ".gz") {
			return r.Encode(w)
		}
		z := gzip.NewWriter(w)
		if err := r.Encode(z); err != nil {
			return err
		}
		return z.Close()
	})
}

func (a *app) detect() *cobra.Command {
	var w where
	var topology bool
	c := &cobra.Command{Use: "detect", GroupID: "node", Args: cobra.NoArgs, Short: "Show the hardware as sites see it",
		Long: "Looks at this machine's hardware, or at a recorded one's. The names are those of stage.detect-hw.NAME in a site.",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if err := w.check(); err != nil {
				return err
			}
			if topology && asJSON {
				return failure(origin.Usage, "--topology is a picture for people; -o json has the same facts, with the node of each device under numa")
			}
			l := live.New(live.Options{Hardware: w.hardware, Site: &site.Site{}})
			defer l.Close()
			f, ans, err := world.FactsOf.Ask(c.Context(), l, world.FactsReq{})
			if err != nil {
				return failure(origin.HardwareFailed, "the hardware cannot be read: %s", ans.Detail)
			}
			degraded := []boot.Degraded{}
			for _, u := range f.Unknown {
				if u.Degraded {
					degraded = append(degraded, boot.Degraded{Code: origin.HardwareDegraded, Summary: u.Fact + ": " + u.Why})
				}
			}
			if asJSON {
				return a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					return e.Encode(present.FactsDocument(ans.Value, f, degraded))
				})
			}
			show := present.FactsText
			if topology {
				show = present.TopologyText
			}
			return a.print(func(o io.Writer) error { return show(o, f, present.StyleOf(a.stdout, a.getenv)) })
		}}
	c.Flags().StringVar(&w.hardware, "hardware", "", "a recorded machine: a tree or a ghw snapshot at `PATH`")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`text` or json")
	c.Flags().BoolVar(&topology, "topology", false, "show a tree by NUMA node: which devices are near which CPUs")
	return c
}

// exactly is cobra's ExactArgs with a message that says what is missing.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return failure(origin.Usage, "%d argument needed: %s", n, what)
		}
		return nil
	}
}
