package main

import (
	"bytes"
	"io"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/plan/lang"
)

// printDiagnostics prints diagnostics for people, redacted.
func (a *cli) printDiagnostics(s *lang.Site, ds hcl.Diagnostics) {
	var sources map[string][]byte
	if s != nil {
		sources = s.Sources
	}
	_ = a.printRedacted(a.stderr, func(w io.Writer) error {
		return printer.Diagnostics(w, sources, a.nameRoots(ds), printer.StyleOf(a.stderr, a.getenv))
	})
}

// print writes to stdout through the redactor.
func (a *cli) print(f func(io.Writer) error) error {
	a.printed = true
	if err := a.printRedacted(a.stdout, f); err != nil {
		return fault.CannotWrite.Errorf("cannot print: %s", err)
	}
	return nil
}

// printJSON writes a value as JSON to stdout, or as YAML if that is asked for, redacted.
func (a *cli) printJSON(v any) error {
	a.printed = true
	write := printer.WriteDocument
	if a.document == "yaml" {
		write = printer.WriteYAML
	}
	if err := write(a.stdout, v, a.secrets()); err != nil {
		return fault.CannotWrite.Errorf("cannot print: %s", err)
	}
	return nil
}

// printCommands writes commands of a workflow to stdout, redacted.
func (a *cli) printCommands(f func(io.Writer) error) error {
	if err := a.printRedacted(printer.Commands(a.stdout), f); err != nil {
		return fault.CannotWrite.Errorf("cannot print: %s", err)
	}

	return nil
}

func (a *cli) printRedacted(to io.Writer, f func(io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	_, err := io.WriteString(to, a.redact(b.String()))

	return err
}
