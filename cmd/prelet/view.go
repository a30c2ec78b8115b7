package main

import (
	"embed"
	"fmt"
	"io"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/origin"
)

// views are the results of commands as text, each a template over the value that is the JSON document.
//
//go:embed views/*.tmpl
var views embed.FS

// view writes a result as text: by the template of its command.
func (a *cli) view(w io.Writer, name string, result any) error {
	style := printer.StyleOf(a.stdout, a.getenv)

	return style.Render(w, views, "views/"+name+".tmpl", result, template.FuncMap{
		"changed":  inspect.HistoryEntry.Changed,
		"lasted":   func(from, to time.Time) time.Duration { return to.Sub(from).Round(time.Millisecond) },
		"newest":   inspect.History.Newest,
		"origin":   inspect.HistoryEntry.Origin,
		"plan":     shortenPlan,
		"row":      a.row,
		"sentence": func(text string) string { return origin.Capitalize(text) + "." },
		"since":    func(from, to time.Time) int64 { return to.Sub(from).Microseconds() },
		"stamp":    func(t time.Time) string { return t.Local().Format(time.DateTime) },
		"took":     formatTook,
		"trim":     func(line string) string { return strings.TrimRight(line, " ") },
		"words":    inspect.HistoryEntry.Words,
	})
}

// row returns a name and a text, wrapped; "" for a text that is empty.
func (a *cli) row(name, text string) string {
	const indent = 12

	if text == "" {
		return ""
	}
	lines := strings.Split(printer.Reflow(text, a.width()-indent), "\n")

	return name + strings.Repeat(" ", indent-len(name)) + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + "\n"
}

// show prints a result: as the JSON document that it is, or as text by its view.
func (a *cli) show(asJSON bool, name string, result any) error {
	if asJSON {
		return a.printJSON(result)
	}

	return a.print(func(w io.Writer) error {
		return a.view(w, name, result)
	})
}

// printResult prints a result: as the JSON document that it is, or as text.
func printResult[T any](
	a *cli,
	asJSON bool,
	result T,
	write func(io.Writer, T, printer.Style) error,
) error {
	if asJSON {
		return a.printJSON(result)
	}

	return printText(a, result, write)
}

func printText[T any](a *cli, value T, write func(io.Writer, T, printer.Style) error) error {
	return a.print(func(w io.Writer) error {
		return write(w, value, printer.StyleOf(a.stdout, a.getenv))
	})
}

// shortenPlan returns the part of a plan's identity that people compare.
func shortenPlan(plan string) string {
	hash, version, _ := strings.Cut(strings.TrimPrefix(plan, "sha256:"), "@")

	return hash[:min(12, len(hash))] + " on kubelet " + version
}

// formatTook returns a duration of microseconds in milliseconds, from ten seconds on in seconds.
func formatTook(micros int64) string {
	if micros < 10_000_000 {
		return fmt.Sprintf("%.1fms", float64(micros)/1e3)
	}

	return fmt.Sprintf("%.3fs", float64(micros)/1e6)
}
