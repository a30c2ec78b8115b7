package printer

import (
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lang/explain"
)

// maxHidden is how many hidden parts of a value are explained.
const maxHidden = 12

// EvaluationText writes a value, what is hidden in it, its type and where it comes from.
func EvaluationText(w io.Writer, v explain.Evaluation, s Style) error {
	b := page{Style: s}
	b.writeValue(v)
	if len(v.Chain) > 0 {
		b.writeLine("")
		b.writeSteps(v.Chain)
	}

	return b.flush(w)
}

func (b *page) writeValue(v explain.Evaluation) {
	for _, l := range strings.Split(v.Value, "\n") {
		b.writeLine(b.clean(l))
	}
	b.writeType(v.Type)

	for n, h := range v.Hidden {
		if h.Why == "" {
			continue
		}
		if n == maxHidden {
			b.writeLine("…")
			break
		}
		at := h.Path
		if at == "" {
			at = "it"
		}
		text := at + " is " + h.State + ": " + h.Why
		b.writeLines("", "  ", b.wrap(text, b.Width-2))
	}
}

// writeType writes a type, if it fits into a line: that of a whole device lists all its fields.
func (b *page) writeType(name string) {
	text := "type: " + name
	if columns(text) > b.Width {
		constructor, _, _ := strings.Cut(name, "(")
		text = "type: " + constructor + "(…)"
	}
	b.writeLine(b.dim(b.cell(text)))
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
