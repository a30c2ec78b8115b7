package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/reference"
)

//go:generate go run . schema --out ../../docs

func (a *cli) schema() *cobra.Command {
	var output format
	var dir string
	c := &cobra.Command{
		Use:     "schema [BLOCK]",
		GroupID: "site",
		Args:    cobra.MaximumNArgs(1),
		Short:   "Print the language: blocks, arguments, types, defaults",
		Long: `Prints the reference of the language, as Markdown or JSON. BLOCK is a block or a stage type: only that is
printed, as Markdown.
With --out it writes pages to DIR/reference and DIR/codes, one for each stage type and code.`,
		Example: "  prelet schema | less\n  prelet schema cluster\n  prelet schema --out docs",
		RunE: stoppable(func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && (dir != "" || output.name != "markdown"):
				return fault.Usage.Errorf("schema %s prints one block as Markdown; leave -o and --out out", args[0])
			case dir != "" && output.name != "markdown":
				return fault.Usage.Errorf("--out writes Markdown pages; leave -o %s out", output.name)
			case dir != "":
				return reference.Write(dir)
			}

			language := reference.Describe(reference.Collect())
			if output.name == "yaml" {
				return a.printJSON(language)
			}
			if len(args) > 0 {
				text, err := language.FindBlock(args[0])
				if err != nil {
					return err
				}
				return a.print(func(o io.Writer) error {
					_, err := io.WriteString(o, text)
					return err
				})
			}
			return a.print(func(o io.Writer) error {
				if !output.isJSON() {
					_, err := io.WriteString(o, language.Markdown())
					return err
				}
				e := json.NewEncoder(o)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(language)
			})
		}),
	}
	output.addFlag(c, "markdown", "json")
	addOutFlag(c, &dir)
	return c
}
