package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
)

//go:generate go run . schema --out ../../docs
//go:generate cp ../../docs/reference/site.schema.json ../../editors/vscode/

func (a *cli) schema() *cobra.Command {
	var output format
	var dir string
	c := &cobra.Command{
		Use:     "schema",
		GroupID: "site",
		Args:    refuseArguments,
		Short:   "Print the language: blocks, arguments, types, defaults",
		Long: `Prints the reference of the language, as Markdown or JSON.
-o jsonschema prints the JSON Schema of *.hcl.json files, for editors and programs that write sites.
With --out it writes pages to DIR/reference and DIR/codes, one for each stage type and code.`,
		Example: "  prelet schema | less\n  prelet schema -o jsonschema > site.schema.json\n  prelet schema --out docs",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case dir != "" && output.name != "markdown":
				return failure(fault.Usage, "--out writes Markdown pages; leave -o %s out", output.name)
			case dir != "":
				return app.WriteReference(dir)
			}

			language := app.Language()
			return a.print(func(o io.Writer) error {
				switch output.name {
				case "markdown":
					_, err := io.WriteString(o, language.Markdown())
					return err
				case "jsonschema":
					text, err := language.JSONSchema()
					if err != nil {
						return err
					}
					_, err = o.Write(text)
					return err
				}
				e := json.NewEncoder(o)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(language)
			})
		},
	}
	output.addFlag(c, "markdown", "json", "jsonschema")
	addOutFlag(c, &dir)
	return c
}
