package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

//go:generate go run . schema --dir ../../docs

func (a *cli) schema() *cobra.Command {
	var output, dir string
	c := &cobra.Command{Use: "schema", GroupID: "site", Args: noArgument, Short: "Print the language: blocks, arguments, types, defaults",
		RunE: func(*cobra.Command, []string) error {
			l := schema.Describe(builtin.Language())
			switch {
			case output != "markdown" && output != "json":
				return failure(fault.Usage, "-o %s: markdown or json", output)
			case dir != "" && output != "markdown":
				return failure(fault.Usage, "--dir writes Markdown pages; leave -o %s out", output)
			case dir != "":
				if err := writePages(dir, pages(l)); err != nil {
					return failure(fault.CannotWrite, "%s", err)
				}
				return nil
			case output == "json":
				return a.print(func(o io.Writer) error {
					e := json.NewEncoder(o)
					e.SetEscapeHTML(false)
					e.SetIndent("", "  ")
					return e.Encode(l)
				})
			}
			return a.print(func(o io.Writer) error { _, err := io.WriteString(o, l.Markdown()); return err })
		}}
	c.Flags().StringVarP(&output, "output", "o", "markdown", "`FORMAT`: markdown or json")
	c.Flags().StringVar(&dir, "dir", "", "write the pages to `DIR`/reference and DIR/codes, one for each stage type and code")
	return c
}

// pages are all pages that are made from code, by their path below docs/.
func pages(l schema.Document) map[string]string {
	out := map[string]string{}
	for _, p := range l.Pages() {
		out["reference/"+p.Name] = p.Text
	}
	out["reference/exit-codes.md"] = schema.Generated + fault.ExitStatusPage()
	out["reference/activation.md"] = schema.Generated + activate.Page()
	out["reference/kubelet-rules.md"] = schema.Generated + rules.Page()
	for name, text := range fault.CodePages() {
		out["codes/"+name] = schema.Generated + text
	}
	return out
}

// writePages writes the pages below a folder, which it makes where it is missing. It removes nothing.
func writePages(dir string, pages map[string]string) error {
	for name, text := range pages {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
