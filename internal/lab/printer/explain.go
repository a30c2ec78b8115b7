package printer

import (
	"fmt"
	"io"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/eval"
)

// ExplainText writes an item with its chain as a tree.
func ExplainText(w io.Writer, x explain.Explanation, s Style) error {
	return s.render(w, "explain", x, template.FuncMap{
		"effect":   describeEffect,
		"position": origin.Place,
		"emphasized": func(text string) string {
			lines := s.wrap(text, s.Width-4)
			lines[0] = s.bold(lines[0])
			return joinLines("", "    ", lines)
		},
		"isName": explain.Item.IsName,
		"links":  s.links,
		"type":   s.typeLine,
		"uses": func(uses []eval.Use) string {
			var rows [][]string
			for _, u := range uses {
				at := fmt.Sprintf("%s:%d", shortenPath(u.Range.Filename), u.Range.Start.Line)
				rows = append(rows, []string{u.Owner, at})
			}
			return joinLines("  ", "  ", s.table(rows, s.Width-2, s.dim))
		},
	})
}

var effects = map[string]string{
	"reconcile":    "when it is patched, after a good verdict.",
	"registration": "when the kubelet registers the node: on one that has joined, `kubectl` changes it.",
	"restart":      "when the kubelet is restarted.",
	"reader":       "when a program reads it: nothing is restarted for it, since it has no `notify`.",
}

// describeEffect returns when an item takes effect; "" if that is not known.
func describeEffect(x explain.Explanation) string {
	if x.TakesEffect == "unit" {
		units := strings.Join(x.Units, ", ")
		return "when " + units + " is restarted or reloaded, which follows its change."
	}

	return effects[x.TakesEffect]
}

// links returns links as a tree. The place of a link is at the right of its text if there is room, else below.
func (s Style) links(links []explain.Link) string {
	b := page{Style: s}
	var depths []int
	for _, st := range links {
		depths = append(depths, st.Depth)
	}

	for i, st := range links {
		first, next := branches(depths, i)
		lines := b.wrap(linkText(st), b.Width-columns(first))
		var notes []string
		if st.Note != "" {
			notes = b.wrap(st.Note, b.Width-columns(next)-2)
		}
		if at := b.cell(linkPlace(st)); at != "" {
			last := len(lines) - 1
			if columns(first+lines[last])+2+columns(at) <= b.Width {
				lines[last] += "  " + b.dim(at)
			} else {
				notes = append(notes, at)
			}
		}
		b.writeLines(b.dim(first), b.dim(next), lines)
		for _, l := range notes {
			b.writeLine(b.dim(next) + "  " + b.dim(l))
		}
	}

	return b.String()
}

func linkText(st explain.Link) string {
	isTruth := st.Value == "true" || st.Value == "false"
	switch {
	case st.Role == origin.Condition && isTruth:
		return st.Text + " is " + st.Value
	case st.Value != "":
		return st.Text + " = " + st.Value
	}

	return st.Text
}

// linkPlace returns the file and the line of a link; "" for a link with an answer, which is described by its note.
func linkPlace(st explain.Link) string {
	isVariable := st.Kind == origin.Variable
	if st.Range.Filename == "" || st.Answer != nil && !isVariable {
		return ""
	}

	return fmt.Sprintf("%s:%d", shortenPath(st.Range.Filename), st.Range.Start.Line)
}

type explainDocument struct {
	FormatVersion int    `json:"format_version"`
	Source        string `json:"source,omitempty"`
	explain.Explanation
	Range       *origin.JSONRange `json:"range,omitempty"`
	UsedBy      []useDocument     `json:"used_by,omitempty"`
	Diagnostics []Diagnostic      `json:"diagnostics"`
}

// useDocument is a place of the site that refers to a variable, a local or a stage.
type useDocument struct {
	Owner string            `json:"owner"`
	Range *origin.JSONRange `json:"range"`
}

// ExplainDocument returns an explanation as a document of format version 1. source is the recording, if there are
// several.
func ExplainDocument(x explain.Explanation, source string, ds hcl.Diagnostics) any {
	x.Origins = orEmpty(x.Origins)
	d := explainDocument{
		FormatVersion: 1,
		Source:        source,
		Explanation:   x,
		Range:         origin.RangeJSON(x.Range),
		Diagnostics:   DiagnosticsJSON(Sorted(ds)),
	}
	for _, u := range x.Uses {
		d.UsedBy = append(d.UsedBy, useDocument{u.Owner, origin.RangeJSON(u.Range)})
	}

	return d
}

// CodePage is the page of a diagnostic's code, a document of format version 1.
type CodePage struct {
	FormatVersion int        `json:"format_version"`
	Item          string     `json:"item"`
	Code          fault.Code `json:"code"`
	fault.Page
	Exit int `json:"exit"`
}

func NewCodePage(c fault.Code, p fault.Page) CodePage {
	return CodePage{
		FormatVersion: 1,
		Item:          "code/" + string(c),
		Code:          c,
		Page:          p,
		Exit:          c.Exit(),
	}
}

func CodeText(w io.Writer, p CodePage, s Style) error {
	return s.render(w, "code", p, template.FuncMap{
		"headed": s.headed,
		"lines": func(paragraph string) []string {
			isList := strings.Contains(paragraph, "\n- ")
			isVerbatim := strings.HasPrefix(paragraph, verbatim) || isList || s.Width > endless/2
			if isVerbatim {
				return splitLines(paragraph)
			}
			return s.wrap(strings.ReplaceAll(paragraph, "\n", " "), s.Width)
		},
		"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
	})
}
