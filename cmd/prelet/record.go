package main

import (
	"compress/gzip"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/internal/replace"
	"github.com/prelet/prelet/internal/world"
)

func (a *cli) record() *cobra.Command {
	var w where
	var whole bool
	c := &cobra.Command{Use: "record FILE", GroupID: "node", Args: exactly(1, "the recording to write: NAME.prelet or NAME.prelet.gz"), Short: "Keep all that a run reads, as a recording",
		Long: "Runs everything but apply, and keeps every question and its answer: the plan can then be made again on any machine\n" +
			"(`prelet plan --from FILE`). Secrets are not in it. Serial numbers, uuids, MAC addresses and GUIDs are left out unless asked for.",
		RunE: func(c *cobra.Command, args []string) error {
			if !strings.HasSuffix(args[0], ".prelet") && !strings.HasSuffix(args[0], ".prelet.gz") {
				return failure(fault.Usage, "%s: a recording's name ends in .prelet or .prelet.gz", args[0])
			}
			n, diags, err := a.env().Open(w.Where, nil)
			if err != nil {
				return err
			}
			defer n.Close()
			if diags.HasErrors() {
				a.say(n.Site, present.Sorted(diags))
				return quit(origin.Code(diags))
			}
			ctx, stop := stoppable(c.Context())
			defer stop()
			p := n.Plan(ctx, a.progress())
			if err := app.Stopped(ctx); err != nil {
				return err
			}
			p.Diagnostics = append(diags, p.Diagnostics...)
			r := n.Recording(p)
			if !whole {
				if err := r.Withhold(); err != nil {
					return failure(fault.Internal, "%s", err)
				}
			}
			if err := writeRecording(args[0], r); err != nil {
				return failure(fault.CannotWrite, "%s: %s", args[0], err)
			}
			a.say(n.Site, present.Sorted(p.Diagnostics))
			_, _ = io.WriteString(a.stderr, "Recorded "+args[0]+". Try: prelet plan --from "+args[0]+"\n")
			return quit(origin.Code(p.Diagnostics))
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

// exactly is cobra's ExactArgs with a message that says what is missing.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return failure(fault.Usage, "%d argument needed: %s", n, what)
		}
		return nil
	}
}
