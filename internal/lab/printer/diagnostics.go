package printer

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

// Sorted returns diagnostics without duplicates, notes first and errors last, since the end of the output is read
// first.
func Sorted(ds hcl.Diagnostics) hcl.Diagnostics {
	seen := map[string]bool{}
	var out hcl.Diagnostics
	for _, d := range ds {
		key := d.Error() + d.Summary
		if !seen[key] {
			out = append(out, d)
		}
		seen[key] = true
	}
	order := []string{"note", "warning", "error"}
	slices.SortStableFunc(out, func(a, b *hcl.Diagnostic) int {
		return slices.Index(order, origin.Severity(a)) - slices.Index(order, origin.Severity(b))
	})

	return out
}

func (s Style) paintOf(severity string) func(string) string {
	switch severity {
	case "error":
		return s.red
	case "warning":
		return s.yellow
	}

	return s.dim
}

// Diagnostics writes messages for people: the summary with the code, the place with its line of the site, the reason
// and the next step. A long reason that is the same for several places is written once.
func Diagnostics(w io.Writer, sources map[string][]byte, ds hcl.Diagnostics, s Style) error {
	b := page{Style: s}
	shown := map[string]bool{}
	for _, d := range ds {
		detail := d.Detail
		reason := string(origin.CodeOf(d)) + detail
		if columns(detail) > min(b.Width, plainWidth) && shown[reason] {
			detail = "For the same reason as above."
		}
		shown[reason] = true
		b.writeDiagnostic(sources, d, detail)
	}

	return b.flush(w)
}

func (b *page) writeDiagnostic(sources map[string][]byte, d *hcl.Diagnostic, detail string) {
	paint := b.paintOf(origin.Severity(d))
	b.writeHeading(origin.Capitalize(origin.Severity(d))+":", paint, d)
	if at := d.Subject; at != nil && at.Filename != "" {
		fmt.Fprintf(b, "  %s\n", b.cell(origin.Place(*at).String()))
		source := sources[at.Filename]
		if x, _ := d.Extra.(origin.Extra); x.Source != "" {
			source = []byte(x.Source)
		}
		b.writeSnippet(hideSecrets(source), *at, paint)
	}
	b.writeText("  ", detail)
	b.writeLine("")
}

// writeHeading writes the summary of a message between its severity and its code.
func (b *page) writeHeading(word string, paint func(string) string, d *hcl.Diagnostic) {
	indent := columns(word) + 1
	code := "[" + string(origin.CodeOf(d)) + "]"
	lines := b.addNote(b.wrap(d.Summary, b.Width-indent), b.bold, b.Width-indent, " ", code)
	b.writeLines(paint(word)+" ", strings.Repeat(" ", indent), lines)
}

// maxMarked is how many columns of a marked place are always shown, and maxSnippet of its line.
const (
	maxMarked  = 20
	maxSnippet = 160
)

// writeSnippet writes the first line of a range, with a mark below. Of a long line it shows the part with the place.
func (b *page) writeSnippet(src []byte, r hcl.Range, paint func(string) string) {
	if src == nil || r.Start.Byte > len(src) {
		return
	}

	start := bytes.LastIndexByte(src[:r.Start.Byte], '\n') + 1
	text, _, _ := strings.Cut(string(src[start:]), "\n")
	text = strings.TrimRight(text, "\r")
	end := max(r.Start.Byte, min(r.End.Byte, start+len(text)))
	marked := max(1, utf8.RuneCount(src[r.Start.Byte:end]))
	if b.screen != nil { // before it is cut; the mark may be next to its place then
		text = b.screen.redactor.String(text)
	}

	before := columns(expandTabs(text[:min(r.Start.Byte-start, len(text))]))
	line := []rune(maskControls(expandTabs(text)))
	room := max(min(b.Width-8, maxSnippet), maxMarked)
	keep := room - 1 - min(marked, maxMarked)
	if before > keep {
		line = append([]rune("…"), line[before-keep:]...)
		before = keep + 1
	}
	if len(line) > room {
		line = append(line[:room:room], '…')
	}
	mark := strings.Repeat("^", max(1, min(marked, room-before)))
	fmt.Fprintf(b, "%s │ %s\n", b.dim(fmt.Sprintf("%4d", r.Start.Line)), string(line))
	fmt.Fprintf(b, "     │ %s%s\n", strings.Repeat(" ", before), paint(mark))
}

// userOfURL is a user, with a password, in a URL.
var userOfURL = texts.LazyRegexp(`://[^\s"'/?#]+@`)

// hideSecrets replaces evident secrets in a source, and the user info of its URLs, by as many bytes, so that a mark
// stays below its place.
func hideSecrets(src []byte) []byte {
	if src == nil {
		return nil
	}

	return secret.BlankEvident(userOfURL().ReplaceAllFunc(src, func(found []byte) []byte {
		return []byte("://" + strings.Repeat("*", len(found)-len("://@")) + "@")
	}))
}

func expandTabs(line string) string {
	return strings.ReplaceAll(line, "\t", "    ")
}

// maskControls replaces control characters, so that a text has no effect on the terminal.
func maskControls(line string) string {
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

// DiagnosticsJSON returns diagnostics for JSON, never nil.
func DiagnosticsJSON(ds hcl.Diagnostics) []Diagnostic {
	out := []Diagnostic{}
	for _, d := range ds {
		x := Diagnostic{
			Severity: origin.Severity(d),
			Code:     string(origin.CodeOf(d)),
			Summary:  d.Summary,
			Detail:   d.Detail,
		}
		if d.Subject != nil {
			x.Range = origin.RangeJSON(*d.Subject)
		}
		out = append(out, x)
	}

	return out
}
