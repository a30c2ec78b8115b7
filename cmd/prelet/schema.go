package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/fault"
)

//go:generate go run . schema --dir ../../docs
//go:generate cp ../../docs/reference/site.schema.json ../../editors/vscode/

func (a *cli) schema() *cobra.Command {
	var output, dir string
	c := &cobra.Command{
		Use:     "schema",
		GroupID: "site",
		Args:    refuseArguments,
		Short:   "Print the language: blocks, arguments, types, defaults",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case output != "markdown" && output != "json" && output != "jsonschema":
				return failure(fault.Usage, "-o %s: markdown, json or jsonschema", output)
			case dir != "" && output != "markdown":
				return failure(fault.Usage, "--dir writes Markdown pages; leave -o %s out", output)
			case dir != "":
				return app.WriteReference(dir)
			}

			language := app.Language()
			return a.print(func(o io.Writer) error {
				switch output {
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
	c.Flags().StringVarP(&output, "output", "o", "markdown",
		"`FORMAT`: markdown, json, or jsonschema,\nthe JSON Schema of a *.hcl.json file")
	c.Flags().StringVar(&dir, "dir", "",
		"write the pages to `DIR`/reference and DIR/codes, one for each stage type and code")
	return c
}
