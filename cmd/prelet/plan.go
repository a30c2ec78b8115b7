package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
)

func (a *app) plan() *cobra.Command {
	var w where
	var detailed bool
	c := &cobra.Command{Use: "plan", GroupID: "node", Args: cobra.NoArgs, Short: "Show what a run would change, and why",
		Long: "Evaluates the site over this node, or a recorded one, and shows what a run would change: labels, taints, flags, the\n" +
			"kubelet's configuration in its own terms, each file. Writes nothing, and works without root as far as it may read.",
		Example: "  prelet plan\n  prelet plan --from node17.prelet --config ./site\n  prelet plan --from fleet/ -o json\n  prelet plan --hardware ./machines/dgx --objects ./objects --root ./scratch",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			fleet, err := recordings(w.from)
			if err != nil {
				return err
			}
			if fleet == nil {
				return a.planOne(c.Context(), w, "", asJSON, detailed)
			}
			worst := 0
			for _, f := range fleet {
				one := w
				one.from = f
				if !asJSON {
					fmt.Fprintf(a.stdout, "━━ %s\n\n", f)
				}
				var x exitError
				switch err := a.planOne(c.Context(), one, f, asJSON, detailed); {
				case errors.As(err, &x):
					worst = max(worst, x.code)
					if x.message != "" {
						fmt.Fprintln(a.stderr, "prelet:", a.redact(x.message))
					}
				case err != nil:
					return err
				}
				if !asJSON {
					fmt.Fprintln(a.stdout)
				}
			}
			return exit(worst)
		}}
	w.nodeFlags(c)
	w.fromFlag(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when there is something to change")
	return c
}

// recordings lists those of a folder; nil where from is none.
func recordings(from string) ([]string, error) {
	if st, err := os.Stat(from); from == "" || err != nil || !st.IsDir() {
		return nil, nil
	}
	var out []string
	for _, pattern := range []string{"*.prelet", "*.prelet.gz"} {
		m, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return nil, failure(origin.Usage, "--from %s: %s", from, err)
		}
		out = append(out, m...)
	}
	if len(out) == 0 {
		return nil, failure(origin.Usage, "--from %s: there is no recording (*.prelet, *.prelet.gz) in this folder", from)
	}
	slices.Sort(out)
	return out, nil
}

// planOne evaluates the site over one node. Source is named in JSON where there are several.
func (a *app) planOne(ctx context.Context, w where, source string, asJSON, detailed bool) error {
	n, diags, err := a.open(w, nil)
	if err != nil {
		return err
	}
	defer n.close()
	p := n.planUnless(ctx, diags, a.progress())
	return a.showPlan(n, p, source, asJSON, detailed)
}

func (a *app) showPlan(n *node, p *boot.Plan, source string, asJSON, detailed bool) error {
	v := present.View{Plan: p, Version: version, Generation: n.generation(), Source: source}
	if asJSON {
		if err := a.print(func(o io.Writer) error { return present.PlanJSON(o, v) }); err != nil {
			return err
		}
	} else {
		a.say(p.Site, present.Sorted(p.Diagnostics))
		if !p.Diagnostics.HasErrors() {
			if err := a.print(func(o io.Writer) error { return present.PlanText(o, v, present.StyleOf(a.stdout, a.getenv)) }); err != nil {
				return err
			}
		}
		if n.store != nil && p.Complete && v.Changes() {
			if why := apply.HeldBy(n.store, p); why != "" {
				a.complain("a run would change none of this: " + why)
			}
		}
	}
	if code := origin.Exit(p.Diagnostics); code != 0 {
		return exit(code)
	}
	if detailed && v.Changes() {
		return exit(2)
	}
	return nil
}

// generation is the number of the one in place; 0 before the first.
func (n *node) generation() int {
	if n.store == nil {
		return 0
	}
	if g, err := n.store.Current(); err == nil && g != nil {
		return g.Gen
	}
	return 0
}
