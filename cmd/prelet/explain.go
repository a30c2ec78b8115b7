package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/explain"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/present"
	"github.com/prelet/prelet/schema"
)

func (a *cli) explain() *cobra.Command {
	var w where
	c := &cobra.Command{Use: "explain ITEM", GroupID: "node", Args: a.oneItem, Short: "Tell why a label, a taint, a flag, a setting or a file is as it is",
		Long: "Shows an item of the plan with all that it rests on: the line of the site, the references in it with their values, down to\n" +
			"variables, facts with their device, objects of the cluster, files, literals. Of a label that is not there it says which\n" +
			"stages could set it, and why they do not. A value into which a secret flowed is never shown.\n\n" +
			"ITEM is label/KEY, taint/KEY, flag/NAME, config/a.b.c, file/PATH or code/NAME (a message's code), or a bare word if it\n" +
			"fits only one. --from FOLDER explains it over each recording in it. " + folderExit,
		Example: "  prelet explain label/accelerator\n  prelet explain config/evictionHard --from node17.prelet\n  prelet explain label/accelerator --from fleet/\n  prelet explain code/null-fact",
		RunE: func(c *cobra.Command, args []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			item, typed := explain.Parse(args[0])
			if typed && item.Kind == explain.Code {
				return a.explainCode(item.Name, asJSON)
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
				return a.explainOne(ctx, w, "", args[0], asJSON)
			}
			var codes []int
			for n, f := range fleet {
				if !asJSON {
					if n > 0 {
						fmt.Fprintln(a.stdout)
					}
					fmt.Fprintf(a.stdout, "━━ %s\n\n", f)
				}
				one := w
				one.From = f
				if err := app.Stopped(ctx); err != nil {
					return err
				}
				err := a.explainOne(ctx, one, f, args[0], asJSON)
				x, known := ending(err)
				if !known {
					return err
				}
				if err := a.failedOne(f, x, asJSON); err != nil {
					return err
				}
				codes = append(codes, x.status)
			}
			return exit(lowest(codes))
		}}
	w.nodeFlags(c)
	w.fromFlag(c)
	return c
}

// explainOne explains a word over one node. Source is named in JSON where there are several.
func (a *cli) explainOne(ctx context.Context, w where, source, word string, asJSON bool) error {
	x, err := a.env().Explain(ctx, w.Where, word)
	switch {
	case err != nil:
		return err
	case x.Item.Kind == explain.Code:
		return a.explainCode(x.Item.Name, asJSON)
	case x.Plan.Eval == nil && !asJSON:
		a.say(x.Plan.Site, present.Sorted(x.Plan.Diagnostics))
		return quit(origin.Code(x.Plan.Diagnostics))
	case x.Plan.Eval == nil:
		return a.printExplanation(x, source, asJSON)
	}
	return a.showExplanation(x, source, asJSON)
}

func (a *cli) oneItem(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return failure(fault.Usage, "explain takes one ITEM: label/KEY, taint/KEY, flag/NAME, config/a.b.c, file/PATH or code/NAME")
	}
	return nil
}

func (a *cli) showExplanation(x app.Explanation, source string, asJSON bool) error {
	if x.Plan.Diagnostics.HasErrors() && !asJSON {
		a.say(x.Plan.Site, present.Sorted(x.Plan.Diagnostics))
	}
	if x.Missing != nil && (!asJSON || source == "") { // of several, there is one document for each, whatever it says
		return x.Missing
	}
	return a.printExplanation(x, source, asJSON)
}

func (a *cli) printExplanation(x app.Explanation, source string, asJSON bool) error {
	err := a.print(func(o io.Writer) error {
		if asJSON {
			return present.ExplainJSON(o, x.Explanation, source, x.Plan.Diagnostics)
		}
		return present.ExplainText(o, x.Explanation, present.StyleOf(a.stdout, a.getenv))
	})
	if err != nil {
		return err
	}
	return quit(origin.Code(x.Plan.Diagnostics))
}

func (a *cli) explainCode(name string, asJSON bool) error {
	c := fault.Code(name)
	page, ok := c.Page()
	if !ok {
		var known []string
		for _, x := range fault.Codes() {
			known = append(known, string(x))
		}
		return failure(fault.Usage, "%s", strings.TrimSpace(present.Reflow(fmt.Sprintf("there is no code %q. %s", name, schema.Suggest(name, known)), width)))
	}
	return a.print(func(o io.Writer) error {
		if asJSON {
			return present.CodeJSON(o, c, page)
		}
		return present.CodeText(o, c, page, present.StyleOf(a.stdout, a.getenv))
	})
}
