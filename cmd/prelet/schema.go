package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

func (a *app) schema() *cobra.Command {
	var output, dir string
	c := &cobra.Command{Use: "schema", GroupID: "site", Args: cobra.NoArgs, Short: "Print the language: blocks, arguments, types, defaults",
		RunE: func(*cobra.Command, []string) error {
			l := schema.Describe(builtin.Language())
			switch output {
			case "json":
				return a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					e.SetIndent("", "  ")
					return e.Encode(l)
				})
			case "markdown", "text":
				if dir != "" {
					if err := writePages(dir, l.Pages()); err != nil {
						return failure(origin.CannotWrite, "%s", err)
					}
					return nil
				}
				return a.print(func(o io.Writer) error { _, err := io.WriteString(o, l.Markdown()); return err })
			}
			return failure(origin.Usage, "-o %s: markdown or json", output)
		}}
	c.Flags().StringVarP(&output, "output", "o", "markdown", "`markdown` or json")
	c.Flags().StringVar(&dir, "dir", "", "write the reference pages to `DIR`, one for each block")
	return c
}
