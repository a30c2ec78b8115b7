package present

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/explain"
	"github.com/prelet/prelet/internal/lang/origin"
)

// ExplainText writes an item with its chain as a tree: what is written in the site, what it gave, and what that rests
// on, down to variables, facts, objects and files.
func ExplainText(w io.Writer, x explain.Explanation, s Style) error {
	var b strings.Builder
	head := x.Item.String()
	if x.Present {
		lines := s.wrap(head+" = "+x.Value, s.Width-4)
		lines[0] = s.bold(lines[0])
		b.WriteString(strings.Join(lines, "\n    ") + "\n")
	} else {
		fmt.Fprintf(&b, "%s %s\n", s.bold(head), s.yellow("is not there."))
		for _, l := range s.wrap(x.Summary, s.Width-2) {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	if x.Range.Filename != "" {
		for _, l := range s.wrap(x.Text, s.Width-4) {
			fmt.Fprintf(&b, "    %s\n", l)
		}
		fmt.Fprintf(&b, "    %s\n", s.dim("at "+s.cell(position(x.Range))))
	}
	if t := describeEffect(x); t != "" && x.Present {
		for i, l := range s.wrap("Takes effect "+t, s.Width-2) {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", 2+2*min(i, 1)), l)
		}
	}
	if len(x.Chain) > 0 {
		b.WriteString("\n")
		tree(&b, x.Chain, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var effects = map[string]string{
	"reconcile":    "when the node patches its own labels, after a good verdict.",
	"registration": "when the kubelet registers the node: on one that has joined, `kubectl` changes it.",
	"restart":      "when the kubelet starts anew.",
	"reader":       "when somebody reads it: nothing is restarted for it, since it has no `notify`.",
}

// describeEffect returns when an item takes effect; "" where that is not said.
func describeEffect(x explain.Explanation) string {
	if x.TakesEffect == "unit" {
		return "when " + strings.Join(x.Units, ", ") + " is restarted or reloaded, which follows its change."
	}

	return effects[x.TakesEffect]
}

// tree writes steps with lines for their depth. A place stands at the right where there is room, else below.
func tree(b *strings.Builder, steps []explain.Step, s Style) {
	for i, st := range steps {
		first, next := branches(steps, i)
		line := st.Text
		switch {
		case st.Role == origin.Condition && (st.Value == "true" || st.Value == "false"):
			line += " is " + st.Value
		case st.Value != "":
			line += " = " + st.Value
		}
		at := ""
		if st.Range.Filename != "" && (st.Answer == nil || st.Kind == origin.Variable) { // of other answers the place counts less
			at = s.cell(fmt.Sprintf("%s:%d", short(st.Range.Filename), st.Range.Start.Line))
		}
		room := s.Width - utf8.RuneCountInString(first)
		lines := s.wrap(line, room)
		if last := len(lines) - 1; at != "" && utf8.RuneCountInString(lines[last])+2+utf8.RuneCountInString(at) <= room {
			lines[last] += "  " + s.dim(at)
			at = ""
		}
		var notes []string
		if st.Note != "" {
			notes = s.wrap(st.Note, s.Width-utf8.RuneCountInString(next)-2)
		}
		if last := len(notes) - 1; at != "" && last >= 0 && utf8.RuneCountInString(notes[last])+4+utf8.RuneCountInString(at) <= s.Width-utf8.RuneCountInString(next) {
			notes[last] += "  " + at
			at = ""
		}
		for n, l := range lines {
			if n == 0 {
				fmt.Fprintf(b, "%s%s\n", s.dim(first), l)
			} else {
				fmt.Fprintf(b, "%s%s\n", s.dim(next), l)
			}
		}
		for _, l := range notes {
			fmt.Fprintf(b, "%s  %s\n", s.dim(next), s.dim(l))
		}
		if at != "" {
			fmt.Fprintf(b, "%s  %s\n", s.dim(next), s.dim(at))
		}
	}
}

// branches are the lines of the tree before a step's first line, and before its others.
func branches(steps []explain.Step, i int) (first, next string) {
	depth := steps[i].Depth
	more := func(d int) bool { // another step at that depth before the tree goes up
		for _, s := range steps[i+1:] {
			if s.Depth <= d {
				return s.Depth == d
			}
		}
		return false
	}
	for d := range depth {
		if more(d) {
			first += "│ "
		} else {
			first += "  "
		}
	}
	next = first
	if more(depth) {
		return first + "├ ", next + "│ "
	}
	return first + "└ ", next + "  "
}

func position(r hcl.Range) string {
	return fmt.Sprintf("%s:%d:%d", r.Filename, r.Start.Line, r.Start.Column)
}

type explainDocument struct {
	FormatVersion int               `json:"format_version"`
	Source        string            `json:"source,omitempty"`
	Item          string            `json:"item"`
	Present       bool              `json:"present"`
	Value         any               `json:"value"`
	Range         *origin.JSONRange `json:"range,omitempty"`
	Text          string            `json:"text,omitempty"`
	Summary       string            `json:"summary,omitempty"`
	TakesEffect   string            `json:"takes_effect,omitempty"`
	Units         []string          `json:"units,omitempty"`
	Origins       []origin.Origin   `json:"origins"`
	Chain         []explain.Step    `json:"chain"`
	Diagnostics   []Diagnostic      `json:"diagnostics"`
}

// ExplainJSON writes an explanation as one document of format version 1. Value is null where the item is not there.
// Source is the recording, where there are several.
func ExplainJSON(w io.Writer, x explain.Explanation, source string, ds hcl.Diagnostics) error {
	d := explainDocument{FormatVersion: 1, Source: source, Item: x.Item.String(), Present: x.Present, Range: origin.RangeJSON(x.Range), Text: x.Text, Summary: x.Summary,
		TakesEffect: x.TakesEffect, Units: x.Units, Origins: orEmpty(x.Origins), Chain: orEmpty(x.Chain), Diagnostics: DiagnosticsJSON(Sorted(ds))}
	if x.Present {
		d.Value = x.Whole
	}
	return EncodeJSON(w, d)
}

// CodeText writes the page of a diagnostic's code.
func CodeText(w io.Writer, c fault.Code, p fault.Page, s Style) error {
	var body []string
	for _, l := range strings.Split(p.Text, "\n") {
		if strings.HasPrefix(l, " ") || strings.HasPrefix(l, "\t") { // an example
			body = append(body, l)
			continue
		}
		body = append(body, s.wrap(l, s.Width)...)
	}
	status := fmt.Sprintf("Exit status %d.", c.Exit())
	if p.Warning {
		status = "A warning: it changes no exit status, but under `prelet validate --strict`."
	}
	_, err := fmt.Fprintf(w, "%s  %s\n\n%s\n\n%s\n", s.bold(string(c)), p.Title, strings.Join(body, "\n"), s.dim(status))
	return err
}

// CodeJSON writes the same as one document.
func CodeJSON(w io.Writer, c fault.Code, p fault.Page) error {
	return EncodeJSON(w, struct {
		FormatVersion int        `json:"format_version"`
		Item          string     `json:"item"`
		Code          fault.Code `json:"code"`
		Title         string     `json:"title"`
		Text          string     `json:"text"`
		Exit          int        `json:"exit"`
	}{1, "code/" + string(c), c, p.Title, p.Text, c.Exit()})
}
