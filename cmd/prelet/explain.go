package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/explain"
	"github.com/prelet/prelet/internal/report/printer"
)

func (a *cli) explain() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use: "explain ITEM", GroupID: "node", Args: a.requireItem,
		Short: "Tell why a label, a taint, a flag, a setting or a file is as it is",
		Long: "Shows an item of the plan with all that it rests on: the line of the site, the references in it with " +
			"their values, down to\n" +
			"variables, facts with their device, objects of the cluster, files, literals. Of a label that is not " +
			"there it says which\n" +
			"stages could set it, and why they do not. A value into which a secret flowed is never shown.\n\n" +
			"ITEM is label/KEY, taint/KEY, flag/NAME, config/a.b.c, file/PATH or code/NAME (a message's code), or a " +
			"bare word if it\n" +
			"fits only one. --from FOLDER explains it over each recording in it. " + folderExit,
		Example: "  prelet explain label/accelerator\n  prelet explain config/evictionHard --from node17.prelet\n" +
			"  prelet explain label/accelerator --from fleet/\n  prelet explain code/null-fact",
		RunE: func(c *cobra.Command, args []string) error {
			asJSON, err := w.isJSON()
			if err != nil {
				return err
			}
			ctx, stop := stopOnSignal(c.Context())
			defer stop()

			first := true
			begin := func(source string) {
				if !first && !asJSON {
					fmt.Fprintln(a.stdout)
				}
				first = false
				a.printRecording(source, asJSON)
			}
			show := func(x app.Explanation) error { return a.showExplanation(x, asJSON) }
			o := app.ExplainOptions{Where: w.Where, Word: args[0], MissingIsResult: asJSON}
			code, err := a.env().Explain(ctx, o, begin, show)
			if err != nil {
				return err
			}
			return quit(code)
		},
	}
	w.addNodeFlags(c)
	w.addFromFlag(c)
	return c
}

func (a *cli) requireItem(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return failure(fault.Usage,
			"explain takes one ITEM: label/KEY, taint/KEY, flag/NAME, config/a.b.c, file/PATH or code/NAME")
	}
	return nil
}

// showExplanation prints one explanation, or why there is none.
func (a *cli) showExplanation(x app.Explanation, asJSON bool) error {
	if p := x.Plan; p != nil && (p.Eval == nil || p.Diagnostics.HasErrors()) && !asJSON {
		a.say(x.Plan.Site, present.Sorted(x.Plan.Diagnostics))
	}

	switch {
	case x.Err != nil && x.Source == "":
		return x.Err
	case x.Err != nil:
		return a.showFailure(x.Source, x.Err, asJSON)
	case x.Item.Kind == explain.Code:
		return a.printCode(fault.Code(x.Item.Name), x.Page, asJSON)
	case x.Plan.Eval == nil && !asJSON:
		return nil
	}
	if asJSON {
		return a.printDocument(func(o io.Writer) error {
			return present.ExplainJSON(o, x.Explanation, x.Source, x.Plan.Diagnostics)
		})
	}
	return a.print(func(o io.Writer) error {
		return present.ExplainText(o, x.Explanation, present.StyleOf(a.stdout, a.getenv))
	})
}

// printCode prints the page of a message's code.
func (a *cli) printCode(c fault.Code, page fault.Page, asJSON bool) error {
	if asJSON {
		return a.printDocument(func(o io.Writer) error { return present.CodeJSON(o, c, page) })
	}
	return a.print(func(o io.Writer) error {
		return present.CodeText(o, c, page, present.StyleOf(a.stdout, a.getenv))
	})
}
