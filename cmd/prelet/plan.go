package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) plan() *cobra.Command {
	var w where
	var detailed bool
	c := &cobra.Command{
		Use: "plan", GroupID: "node", Args: refuseArguments, Short: "Show what a run would change, and why",
		Long: "Evaluates the site over this node, or a recorded one, and shows what a run would change: labels, " +
			"taints, flags, the\n" +
			"kubelet's configuration in its own terms, each file. Writes nothing, and works without root as far as " +
			"it may read.\n\n" +
			"--from takes the node's answers from a recording. --var, --var-file, --objects and --kubelet-version " +
			"replace some of\n" +
			"them, and the plan lists what it assumed: what would another variable, ConfigMap or kubelet do?\n\n" +
			"--from FOLDER plans each recording in it and ends with a summary. " + folderExit + " With\n" +
			"--detailed-exitcode 2 says that none failed and something would change, or cannot be told: a recording " +
			"lacks an answer.",
		Example: "  prelet plan\n  prelet plan --from node17.prelet --config ./site\n" +
			"  prelet plan --from fleet/ -o json\n  prelet plan --from fleet/ --config ./site --kubelet-version 1.37\n  prelet plan --hardware ./machines/dgx --objects ./objects " +
			"--root ./scratch",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.isJSON()
			if err != nil {
				return err
			}
			ctx, stop := stopOnSignal(c.Context())
			defer stop()

			begin := func(source string) { a.printRecording(source, asJSON) }
			show := func(p app.Planned) error { return a.showPlanned(p, asJSON) }
			sum, err := a.env().Plan(ctx, w.Where, begin, show)
			if err != nil {
				return err
			}
			return a.endPlan(sum, asJSON, detailed)
		},
	}
	w.addNodeFlags(c)
	w.addFromFlag(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false,
		"exit 2 when there is something to change, or the plan is not complete")
	return c
}

// showPlanned prints one plan, or why there is none.
func (a *cli) showPlanned(p app.Planned, asJSON bool) error {
	show := a.showPlan
	if p.Err != nil {
		show = a.showPlanError
	}
	if err := show(p, asJSON); err != nil {
		return err
	}
	if p.Source != "" && !asJSON {
		fmt.Fprintln(a.stdout)
	}
	return nil
}

func (a *cli) showPlanError(p app.Planned, asJSON bool) error {
	return a.showFailure(p.Source, p.Err, asJSON)
}

// showPlan prints a plan, and why a run would not apply it.
func (a *cli) showPlan(planned app.Planned, asJSON bool) error {
	p := planned.Plan
	v := present.View{Plan: p, Version: version, Generation: planned.Generation, Source: planned.Source}
	if asJSON {
		return a.printDocument(func(o io.Writer) error { return present.PlanJSON(o, v) })
	}

	a.say(p.Site, present.Sorted(p.Diagnostics))
	if !p.Diagnostics.HasErrors() {
		err := a.print(func(o io.Writer) error {
			return present.PlanText(o, v, present.StyleOf(a.stdout, a.getenv))
		})
		if err != nil {
			return err
		}
	}
	if planned.Held != "" && v.Changes() {
		a.complain("a run would change none of this: " + planned.Held)
	}
	return nil
}

// endPlan prints the sum over a folder of recordings and returns how the command ends.
func (a *cli) endPlan(sum app.Plans, asJSON, detailed bool) error {
	if sum.Recordings > 0 && !asJSON {
		if err := a.print(func(o io.Writer) error { return printPlans(o, sum) }); err != nil {
			return err
		}
	}
	if sum.Code == "" && detailed && sum.Changed+sum.Incomplete > 0 {
		return exit(2)
	}
	return quit(sum.Code)
}
