package main

import (
	"io"

	"github.com/spf13/cobra"

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
		Example: "  prelet plan\n  prelet plan --from node17.prelet --config ./site\n  prelet plan --hardware ./machines/dgx --objects ./objects --root ./scratch",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			n, diags, err := a.open(w, nil)
			if err != nil {
				return err
			}
			defer n.close()
			p := &boot.Plan{Site: n.site, Diagnostics: diags}
			if !diags.HasErrors() {
				p = n.plan(c.Context(), a.progress())
				p.Diagnostics = append(diags, p.Diagnostics...)
			}
			return a.showPlan(n, p, asJSON, detailed)
		}}
	w.nodeFlags(c)
	w.fromFlag(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when there is something to change")
	return c
}

func (a *app) showPlan(n *node, p *boot.Plan, asJSON, detailed bool) error {
	v := present.View{Plan: p, Version: version, Generation: n.generation(), Source: n.from}
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
