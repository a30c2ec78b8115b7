package main

import (
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/inspect"
)

// noRun is the exit status of analyze where no run of this boot can be analyzed; status has the same.
const noRun = 3

func (a *cli) analyze() *cobra.Command {
	c := &cobra.Command{
		Use:     "analyze",
		GroupID: "node",
		Short:   "Show what took time in the run of this boot",
		Long: `Shows where the last run of this boot spent its time:
stages, detectors, requests to the cluster, fsyncs, jobs of systemd.
With --root it reads the report in DIR/run/prelet. Exit status 3: there is no finished run of this boot.`,
		Example: "  prelet analyze blame\n  prelet analyze chain -o json",
	}
	c.AddCommand(
		a.analysis("blame", "List everything that took time, the longest first",
			`Lists stages, steps, requests, detectors, reads, fsyncs and jobs of systemd, the longest first.
A stage or step contains its requests and fsyncs, and stages run in parallel, so the times do not add up.
Parts of less than half a millisecond are left out.`),
		a.analysis("chain", "Show the stages and steps that the end of the run waited for",
			`Shows the critical chain: the step that ended last, what it waited for, and so on back to the start,
with the time between two of them and the longest parts of each.
To make a boot faster, make one of these faster.`),
	)
	return c
}

// analysis is one way to show the times of a run.
func (a *cli) analysis(name, short, long string) *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     name,
		Args:    refuseArguments,
		Short:   short,
		Long:    long,
		Example: "  prelet analyze " + name + "\n  prelet analyze " + name + " --root /host -o json",
		RunE: stoppable(func(c *cobra.Command, _ []string) error {
			found, err := inspect.Analyze(c.Context(), a.env(), w.Root)
			if err != nil {
				return err
			}
			if name == "chain" {
				found.Spans = nil
			} else {
				found.Chain = nil
			}
			return a.showAnalysis(name, found, w.output.isJSON())
		}),
	}
	w.addStateFlags(c)
	return c
}

// showAnalysis prints the times of a run, or why there are none.
func (a *cli) showAnalysis(name string, found inspect.Analysis, asJSON bool) error {
	if !asJSON && found.Problem != "" {
		a.printNotice(found.Problem)
		return exit(noRun)
	}
	if err := a.show(asJSON, name, found); err != nil || found.Problem == "" {
		return err
	}

	return exit(noRun)
}
