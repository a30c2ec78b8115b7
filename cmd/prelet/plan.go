package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
)

func (a *cli) plan() *cobra.Command {
	var w where
	var detailed bool
	c := &cobra.Command{Use: "plan", GroupID: "node", Args: noArgument, Short: "Show what a run would change, and why",
		Long: "Evaluates the site over this node, or a recorded one, and shows what a run would change: labels, taints, flags, the\n" +
			"kubelet's configuration in its own terms, each file. Writes nothing, and works without root as far as it may read.\n\n" +
			"--from FOLDER plans each recording in it and ends with a summary. " + folderExit + " With\n" +
			"--detailed-exitcode 2 says that none failed and something would change, or cannot be told: a recording lacks an answer.",
		Example: "  prelet plan\n  prelet plan --from node17.prelet --config ./site\n  prelet plan --from fleet/ -o json\n  prelet plan --hardware ./machines/dgx --objects ./objects --root ./scratch",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if err := w.Check(); err != nil { // once, and not for each recording of a folder
				return err
			}
			fleet, err := app.Recordings(w.From)
			if err != nil {
				return err
			}
			ctx, stop := stoppable(c.Context())
			defer stop()
			if fleet == nil {
				_, err := a.planOne(ctx, w, "", asJSON, detailed)
				return err
			}
			sum := tally{plans: map[string]bool{}}
			for _, f := range fleet {
				one := w
				one.From = f
				if !asJSON {
					fmt.Fprintf(a.stdout, "━━ %s\n\n", f)
				}
				if err := app.Stopped(ctx); err != nil {
					return err
				}
				v, err := a.planOne(ctx, one, f, asJSON, false)
				x, known := ending(err)
				if !known {
					return err
				}
				if err := a.failedOne(f, x, asJSON); err != nil {
					return err
				}
				sum.add(f, v, x.status)
				if !asJSON {
					fmt.Fprintln(a.stdout)
				}
			}
			if !asJSON {
				if err := a.print(sum.text); err != nil {
					return err
				}
			}
			if code := sum.exit(); code == 0 && detailed && sum.changed+sum.incomplete > 0 {
				return exit(2)
			}
			return exit(sum.exit())
		}}
	w.nodeFlags(c)
	w.fromFlag(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when there is something to change, or the plan is not complete")
	return c
}

// planOne evaluates the site over one node. Source is named in JSON where there are several. The view has no plan where
// there was nothing to plan over.
func (a *cli) planOne(ctx context.Context, w where, source string, asJSON, detailed bool) (present.View, error) {
	p, err := a.env().Plan(ctx, w.Where)
	if err != nil {
		return present.View{}, err
	}
	v := present.View{Plan: p.Plan, Version: version, Generation: p.Generation, Source: source}
	return v, a.showPlan(v, p.Held, asJSON, detailed)
}

// showPlan prints a plan, and why a run would not apply it.
func (a *cli) showPlan(v present.View, held string, asJSON, detailed bool) error {
	p := v.Plan
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
		if held != "" && v.Changes() {
			a.complain("a run would change none of this: " + held)
		}
	}
	if code := origin.Code(p.Diagnostics); code != "" {
		return quit(code)
	}
	if detailed && (v.Changes() || !p.Complete) {
		return exit(2)
	}
	return nil
}
