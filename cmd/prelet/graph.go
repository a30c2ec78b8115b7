package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

var graphFormats = map[string]func(io.Writer, eval.Graph) error{
	"text":    printer.GraphText,
	"dot":     printer.GraphDOT,
	"mermaid": printer.GraphMermaid,
}

func (a *cli) graph() *cobra.Command {
	var o planning.GraphOptions
	var output format
	c := &cobra.Command{
		Use:     "graph [PATH...]",
		GroupID: "site",
		Short:   "Show what a site declares, and what depends on what",
		Long: `Lists variables, locals, detectors, blocks and stages with what each refers to.
Stages are in the order in which they run.
A dashed arrow is a default: an argument that is not written takes its value from another stage.
Not drawn, because every site has them: detect-hw runs the detectors, fetch stages use the cluster block,
and write and restart come last, with all that label, taint and reserve have added.
It needs no machine and no network.`,
		Example: "  prelet graph ./site\n  prelet graph ./site --stages -o dot | dot -Tsvg > site.svg\n" +
			"  prelet graph ./site -o mermaid",
		RunE: stoppable(func(*cobra.Command, []string) error {
			return a.showGraph(o, output)
		}),
	}
	a.readRepository(c, &o.Request, lang.AnyOwner())
	c.Flags().StringArrayVar(&o.Config, "config", nil, configUsage)
	addRootFlag(c, &o.Root)
	c.Flags().BoolVar(&o.OnlyStages, "stages", false, "only stages")
	output.addFlag(c, "text", "dot", "mermaid")
	return c
}

func (a *cli) showGraph(o planning.GraphOptions, output format) error {
	got, err := planning.Graph(a.env(), o)
	if err != nil {
		return err
	}

	return a.print(func(w io.Writer) error {
		return graphFormats[output.name](w, got)
	})
}
