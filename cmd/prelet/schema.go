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
		Use:     "schema",
		GroupID: "site",
		Args:    refuseArguments,
		Short:   "Print the language: blocks, arguments, types, defaults",
		Long: `Prints the reference of the language, as Markdown or JSON.
With --out it writes pages to DIR/reference and DIR/codes, one for each stage type and code.`,
		Example: "  prelet schema | less\n  prelet schema --out docs",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case dir != "" && output.name != "markdown":
				return fault.Usage.Errorf("--out writes Markdown pages; leave -o %s out", output.name)
			case dir != "":
				return reference.Write(dir)
			}

			language := reference.Describe(reference.Collect())
			if output.name == "yaml" {
				return a.printJSON(language)
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
		},
	}
	output.addFlag(c, "markdown", "json")
	addOutFlag(c, &dir)
	return c
}
