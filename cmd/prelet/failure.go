package main

import (
	"cmp"
	"strings"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/secret"
)

// documentFormat returns the format of documents that a command line asks for with -o: json or yaml; "" for none. It
// reads the words themselves, since parsing the flags may be what failed.
func documentFormat(args []string) string {
	for i, a := range args {
		name, isFlag := "", false
		for _, prefix := range []string{"--output=", "-o=", "-o"} {
			if name, isFlag = strings.CutPrefix(a, prefix); isFlag {
				break
			}
		}
		switch a {
		case "--":
			return ""
		case "-o", "--output":
			name, isFlag = "", i+1 < len(args)
			if isFlag {
				name = args[i+1]
			}
		}
		if isFlag {
			return map[string]string{"json": "json", "yaml": "yaml"}[name]
		}
	}

	return ""
}

// failureDocument is the document of a command that ended before it had a result, or of one recording of several.
func (a *cli) failureDocument(source string, x exitError) any {
	diags := printer.DiagnosticsJSON(x.diags)
	if len(diags) == 0 {
		page, _ := x.code.Page()
		text := a.nameRoot(cmp.Or(x.Error(), page.Title))
		summary, detail, _ := strings.Cut(secret.NewRedactor().String(text), "\n")
		diags = append(diags, printer.Diagnostic{
			Severity: "error",
			Code:     string(x.code),
			Summary:  summary,
			Detail:   detail,
		})
	}
	return struct {
		FormatVersion int                  `json:"format_version"`
		Source        string               `json:"source,omitempty"`
		PreletVersion string               `json:"prelet_version"`
		Complete      bool                 `json:"complete"`
		Exit          int                  `json:"exit"`
		Diagnostics   []printer.Diagnostic `json:"diagnostics"`
	}{1, source, version, false, x.status, diags}
}
