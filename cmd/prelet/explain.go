package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
)

func (a *cli) explain() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "explain ITEM",
		GroupID: "node",
		Args: requireArgs(1, "one ITEM: label/KEY, taint/KEY, flag/NAME, config/a.b.c, file/PATH, code/NAME, "+
			"var/NAME, local/NAME or stage/TYPE.NAME"),
		Short: "Explain an item of the plan, or a name of the site",
		Long: `Shows where an item of the plan comes from: the line of the site,
and the references in it with their values, down to variables, facts with their device,
objects of the cluster, files and literals.
For a label that is not in the plan, it shows which stages could set it and why they do not.
It never shows a value that contains a secret.

ITEM is label/KEY, taint/KEY, flag/NAME, config/a.b.c, file/PATH or code/NAME (a message's code),
or one word if it matches only one of them.
For a name of the site, which is var/NAME, local/NAME or stage/TYPE.NAME,
it shows the value, its type, and the places that refer to it.
--from FOLDER explains it for each recording in the folder. ` + folderExit,
		Example: "  prelet explain label/accelerator\n  prelet explain config/evictionHard --from node17.prelet\n" +
			"  prelet explain label/accelerator --from fleet/\n  prelet explain code/null-fact",
		RunE: stopOnSignal(func(ctx context.Context, args []string) error {
			asJSON := w.output.isJSON()

			first := true
			begin := func(source string) {
				if !first && !asJSON {
					fmt.Fprintln(a.stdout)
				}
				first = false
				a.printRecording(source, asJSON)
			}
			show := func(x planning.Explanation) error {
				return a.showExplanation(x, asJSON)
			}
			o := planning.ExplainOptions{
				Request:         w.Request,
				Word:            args[0],
				MissingIsResult: asJSON,
			}
			code, err := planning.Explain(ctx, a.env(), o, begin, show)
			if err != nil {
				return err
			}
			return quit(code)
		}),
	}
	a.addRecordedFlags(c, &w)
	w.output.addFlag(c, "text", "json")
	return c
}

// showExplanation prints one explanation, or why there is none.
func (a *cli) showExplanation(x planning.Explanation, asJSON bool) error {
	p := x.Plan
	if p != nil && (p.Eval == nil || p.Diagnostics.HasErrors()) && !asJSON {
		a.printDiagnostics(x.Plan.Site, printer.Sorted(x.Plan.Diagnostics))
	}

	switch {
	case x.Err != nil && x.Source == "":
		return x.Err
	case x.Err != nil:
		return a.showFailure(x.Source, x.Err, asJSON)
	case x.Item.Kind == explain.Code:
		page := printer.NewCodePage(fault.Code(x.Item.Name), x.Page)
		return printResult(a, asJSON, page, printer.CodeText)
	case x.Plan.Eval == nil && !asJSON:
		return nil
	}
	if asJSON {
		return a.printJSON(printer.ExplainDocument(x.Explanation, x.Source, x.Plan.Diagnostics))
	}
	return printText(a, x.Explanation, printer.ExplainText)
}
