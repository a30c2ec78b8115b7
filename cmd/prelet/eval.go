package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
)

func (a *cli) eval() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "eval EXPR",
		GroupID: "node",
		Args:    requireArgs(1, "one EXPR: quote it, so that it is one argument, and name the site by --config"),
		Short:   "Evaluate an expression over a site and a node",
		Long: `Evaluates an expression as if it were in the site, after a plan of this node or of a recorded one,
and shows its value, its type and where its parts come from.
It may refer to var, local, stage and node. It writes nothing.
On this node, an expression of variables and gather stages needs no plan: only these stages run,
so that hardware is shown without the cluster.

A part without a plain value is shown as null, (unknown) or (sensitive), with the reason.
A secret is never printed.
If the site fails on this node, what the run reached before is known, and the exit status is that of plan.
node is known once it was merged, so not if the base of write or a stage before it failed;
explain label/KEY then shows single items.
An error in EXPR exits with 64.

--from FOLDER evaluates it for each recording in the folder. ` + folderExit,
		Example: "  prelet eval 'slug(stage.detect-hw.node.gpus[0].model)'\n" +
			"  prelet eval node.labels --from node17.prelet --config ./site\n" +
			"  prelet eval 'length(stage.detect-hw.node.gpus)' --from fleet/ -o json",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			session := &planning.Session{Env: a.env(), Request: w.Request}
			defer session.Close()

			return a.evaluate(ctx, session, args[0], w.output.isJSON())
		}),
	}
	a.addRecordedFlags(c, &w)
	w.output.addFlag(c, "text", "json")
	return c
}

// evaluate evaluates one expression, and prints its value over each node.
func (a *cli) evaluate(ctx context.Context, session *planning.Session, text string, asJSON bool) error {
	begin := func(source string) { a.printRecording(source, asJSON) }
	show := func(x planning.Evaluated) error { return a.showEvaluated(x, asJSON) }

	code, err := session.Eval(ctx, text, begin, show)
	if err != nil {
		return err
	}
	return quit(code)
}

// showEvaluated prints one value, or why there is none.
func (a *cli) showEvaluated(x planning.Evaluated, asJSON bool) error {
	if x.Err != nil {
		return a.showFailure(x.Source, x.Err, asJSON)
	}
	if asJSON {
		return a.printJSON(printer.EvaluationDocument(x.Evaluation, x.Source, x.Plan.Diagnostics))
	}

	a.printFailure(x)
	if x.Plan.Eval == nil {
		return nil
	}
	err := printText(a, x.Evaluation, printer.EvaluationText)
	if x.Source != "" {
		fmt.Fprintln(a.stdout)
	}
	return err
}

// printFailure prints the messages of a site that failed, and those about the expression.
func (a *cli) printFailure(x planning.Evaluated) {
	ds := x.Diagnostics
	if x.Plan.Diagnostics.HasErrors() {
		ds = append(append(hcl.Diagnostics{}, x.Plan.Diagnostics...), ds...)
	}
	a.printDiagnostics(x.Plan.Site, printer.Sorted(ds))
}
