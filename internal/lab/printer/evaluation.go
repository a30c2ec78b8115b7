package printer

import (
	"io"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/explain"
)

// EvaluationText writes a value, its hidden parts, its type and its origin.
func EvaluationText(w io.Writer, v explain.Evaluation, s Style) error {
	return s.render(w, "evaluation", v, template.FuncMap{
		"lines": func(text string) string { return joinLines("", "", strings.Split(s.clean(text), "\n")) },
		"links": s.links,
		"type":  s.typeLine,
	})
}

// typeLine returns a type, if it fits into a line: that of a whole device lists all its fields.
func (s Style) typeLine(name string) string {
	text := "type: " + name
	if columns(text) > s.Width {
		constructor, _, _ := strings.Cut(name, "(")
		text = "type: " + constructor + "(…)"
	}

	return s.dim(s.cell(text))
}

type evaluationDocument struct {
	FormatVersion int    `json:"format_version"`
	Source        string `json:"source,omitempty"`
	explain.Evaluation
	Diagnostics []Diagnostic `json:"diagnostics"`
}

// EvaluationDocument returns a value as a document of format version 1. Hidden parts of the value are null. source is
// the recording, if there are several; ds are the messages of the plan.
func EvaluationDocument(v explain.Evaluation, source string, ds hcl.Diagnostics) any {
	all := append(hcl.Diagnostics{}, ds...)

	return evaluationDocument{
		FormatVersion: 1,
		Source:        source,
		Evaluation:    v,
		Diagnostics:   DiagnosticsJSON(Sorted(append(all, v.Diagnostics...))),
	}
}
