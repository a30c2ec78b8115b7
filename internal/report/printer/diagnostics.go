package present

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lang/origin"
)

// Sorted puts errors last, where they are read, and leaves the order else as it was; what is said twice about one
// place stays once.
func Sorted(ds hcl.Diagnostics) hcl.Diagnostics {
	seen := map[string]bool{}
	var out hcl.Diagnostics
	for _, d := range ds {
		if k := d.Error() + d.Summary; !seen[k] {
			seen[k] = true
			out = append(out, d)
		}
	}
	rank := func(d *hcl.Diagnostic) int {
		switch {
		case origin.IsNote(d):
			return 0
		case d.Severity == hcl.DiagWarning:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(a, b *hcl.Diagnostic) int { return rank(a) - rank(b) })
	return out
}

// Diagnostics writes messages for people: what, where with the line itself, why and what next, the code. One cause that
// meets several places, such as a cluster that is away, is told once.
func Diagnostics(w io.Writer, sources map[string][]byte, ds hcl.Diagnostics, s Style) error {
	var b strings.Builder
	told := map[string]bool{}
	for _, d := range ds {
		diagnostic(&b, sources, d, s, told)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func diagnostic(b *strings.Builder, sources map[string][]byte, d *hcl.Diagnostic, s Style, told map[string]bool) {
	word, paint := "Error", s.red
	switch {
	case origin.IsNote(d):
		word, paint = "Note", s.dim
	case d.Severity == hcl.DiagWarning:
		word, paint = "Warning", s.yellow
	}
	heading(b, paint(word+":"), columns(word)+1, d.Summary, "["+string(origin.CodeOf(d))+"]", s)
	if d.Subject != nil && d.Subject.Filename != "" {
		fmt.Fprintf(b, "  %s:%d:%d\n", s.cell(d.Subject.Filename), d.Subject.Start.Line, d.Subject.Start.Column)
		snippet(b, sources[d.Subject.Filename], *d.Subject, s, paint)
	}
	detail := d.Detail
	if cause := string(origin.CodeOf(d)) + detail; columns(detail) > s.Width && told[cause] {
		detail = "For the same reason as above."
	} else {
		told[cause] = true
	}
	for _, l := range s.wrap(detail, s.Width-2) {
		fmt.Fprintf(b, "  %s\n", l)
	}
	b.WriteString("\n")
}

// heading is a summary between a word and a code. word is painted already, and n columns wide.
func heading(b *strings.Builder, word string, n int, summary, code string, s Style) {
	ls := s.wrap(summary, s.Width-n-1)
	for i, l := range ls {
		if i == 0 {
			fmt.Fprintf(b, "%s %s", word, s.bold(l))
		} else {
			fmt.Fprintf(b, "\n%s %s", strings.Repeat(" ", n), s.bold(l))
		}
	}
	if last := ls[len(ls)-1]; n+1+columns(last)+1+columns(code) > s.Width {
		fmt.Fprintf(b, "\n%s %s\n", strings.Repeat(" ", n), s.dim(code))
		return
	}
	fmt.Fprintf(b, " %s\n", s.dim(code))
}

// snippet shows the first line of a range, with a mark below.
func snippet(b *strings.Builder, src []byte, r hcl.Range, s Style, paint func(string) string) {
	if src == nil || r.Start.Byte > len(src) {
		return
	}
	from := strings.LastIndexByte(string(src[:r.Start.Byte]), '\n') + 1
	to := len(src)
	if i := strings.IndexByte(string(src[from:]), '\n'); i >= 0 {
		to = from + i
	}
	line := strings.TrimRight(string(src[from:to]), "\r")
	if s.screen != nil { // before it is cut; the mark may then stand beside its place
		line = s.screen.redactor.String(line)
	}
	end := min(r.End.Byte, from+len(line))
	before := strings.ReplaceAll(line[:min(r.Start.Byte-from, len(line))], "\t", "    ")
	n := 1
	if end > r.Start.Byte {
		n = utf8.RuneCountInString(string(src[r.Start.Byte:end]))
	}
	shown := printable(strings.ReplaceAll(line, "\t", "    "))
	room := max(s.Width-8, 20)
	if cut, keep := utf8.RuneCountInString(before), room-1-min(n, 20); cut > keep { // a long line: show the place, not its beginning
		rs := []rune(shown)
		shown = "…" + string(rs[cut-keep:])
		before = strings.Repeat(" ", keep+1)
	}
	if rs := []rune(shown); len(rs) > room {
		shown = string(rs[:room]) + "…"
	}
	n = max(1, min(n, room-utf8.RuneCountInString(before)))
	num := fmt.Sprintf("%4d", r.Start.Line)
	fmt.Fprintf(b, "%s │ %s\n", s.dim(num), shown)
	fmt.Fprintf(b, "     │ %s%s\n", strings.Repeat(" ", utf8.RuneCountInString(before)), paint(strings.Repeat("^", n)))
}

// printable keeps what a file holds from acting on the terminal that it is shown on.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, line)
}

// Diagnostic is a message in JSON.
type Diagnostic struct {
	Severity string            `json:"severity"` // error | warning | note
	Code     string            `json:"code"`
	Summary  string            `json:"summary"`
	Detail   string            `json:"detail"`
	Range    *origin.JSONRange `json:"range,omitempty"`
}

// DiagnosticsJSON is the list as JSON has it, never null.
func DiagnosticsJSON(ds hcl.Diagnostics) []Diagnostic {
	out := []Diagnostic{}
	for _, d := range ds {
		x := Diagnostic{Severity: "error", Code: string(origin.CodeOf(d)), Summary: d.Summary, Detail: d.Detail}
		switch {
		case origin.IsNote(d):
			x.Severity = "note"
		case d.Severity == hcl.DiagWarning:
			x.Severity = "warning"
		}
		if d.Subject != nil {
			x.Range = origin.RangeJSON(*d.Subject)
		}
		out = append(out, x)
	}
	return out
}
