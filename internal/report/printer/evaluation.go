package printer

import (
	"io"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lang/explain"
)

// EvaluationText writes a value, its hidden parts, its type and its origin.
func EvaluationText(w io.Writer, v explain.Evaluation, s Style) error {
	return s.render(w, "evaluation", v, template.FuncMap{
		"lines": func(text string) string { return joinLines("", "", strings.Split(s.clean(text), "\n")) },
		"steps": s.steps,
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
	FormatVersion int              `json:"format_version"`
	Source        string           `json:"source,omitempty"`
	Expression    string           `json:"expression"`
	Value         any              `json:"value"`
	Type          string           `json:"type"`
	Hidden        []explain.Hidden `json:"hidden"`
	Chain         []explain.Step   `json:"chain"`
	Diagnostics   []Diagnostic     `json:"diagnostics"`
}

// EvaluationJSON writes a value as one document of format version 1. Hidden parts of the value are null. source is the
// recording, if there are several; ds are the messages of the plan.
func EvaluationJSON(w io.Writer, v explain.Evaluation, source string, ds hcl.Diagnostics) error {
	all := append(hcl.Diagnostics{}, ds...)

	return EncodeJSON(w, evaluationDocument{
		FormatVersion: 1,
		Source:        source,
		Expression:    v.Text,
		Value:         v.Whole,
		Type:          v.Type,
		Hidden:        orEmpty(v.Hidden),
		Chain:         orEmpty(v.Chain),
		Diagnostics:   DiagnosticsJSON(Sorted(append(all, v.Diagnostics...))),
	})
}
