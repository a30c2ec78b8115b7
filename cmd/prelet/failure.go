package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/present"
)

// wantsJSON says whether a command line asks for JSON. It is looked at as it stands: what failed may be its flags.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch a {
		case "--":
			return false
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == "json"
		case "-ojson", "-o=json", "--output=json":
			return true
		}
	}
	return false
}

// failureJSON is the document of a command that ended before it had a result, or of one recording of several.
func failureJSON(w io.Writer, source string, x exitError) error {
	diags := present.DiagnosticsJSON(x.diags)
	if len(diags) == 0 {
		summary, detail, _ := strings.Cut(x.message, "\n")
		diags = append(diags, present.Diagnostic{Severity: "error", Code: string(codeOf(x.code)), Summary: summary, Detail: detail})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		FormatVersion int                  `json:"format_version"`
		Source        string               `json:"source,omitempty"`
		PreletVersion string               `json:"prelet_version"`
		Complete      bool                 `json:"complete"`
		Exit          int                  `json:"exit"`
		Diagnostics   []present.Diagnostic `json:"diagnostics"`
	}{1, source, version, false, x.code, diags})
}

// codeOf is the code of a failure that is told in one line: those of a site and of a cluster have their own by then.
func codeOf(exit int) fault.Code {
	for _, c := range []fault.Code{fault.CredentialMissing, fault.HardwareFailed, fault.CannotWrite, fault.NeedsPerson, fault.Interrupted,
		fault.RolledBack, fault.RollbackFails, fault.Systemd, fault.Usage, fault.Locked} {
		if c.Exit() == exit {
			return c
		}
	}
	return fault.Internal
}
