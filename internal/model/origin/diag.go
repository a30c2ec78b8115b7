package origin

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/texts"
)

// Extra is stored in hcl.Diagnostic.Extra: the properties of a message besides its text.
type Extra struct {
	Code fault.Code
	Note bool   // purely informative: not an error for --strict either
	Item string // of the node that the message is about, as in label/KEY; "" for none

	// IsOfUse is set if the expression at the place has to change, and not the value of a variable in it.
	IsOfUse bool

	Rule, Effect string    // of a violated rule of the kubelet, and the effect on the kubelet; "" for none
	SetBy        string    // the stage, ConfigMap or file that has the item of that rule
	At           BasePlace // of that item, if the base has it

	Source string // the text of the file of the place, if that is not one of the site
}

// BasePlace is where the base of a node has an item.
type BasePlace struct {
	ConfigMap string `json:"config_map,omitempty"` // NAMESPACE/NAME
	File      string `json:"file,omitempty"`       // of the node or its image: a drop-in, a file of variables
}

// Error returns an error diagnostic. detail contains the reason and the next step. A zero range means that there is no
// place in the site.
func Error(c fault.Code, at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return newDiagnostic(hcl.DiagError, c, at, summary, detail, args)
}

// InFile returns an error at the place of a fault, which has the text of that file: at a word, or at a line.
func InFile(f *fault.Fault, detail string) *hcl.Diagnostic {
	lines := strings.SplitAfter(f.Source, "\n")
	line := []rune(lines[min(f.At.Line, len(lines))-1])
	column := min(f.At.Column-1, len(line))
	marked := word().FindString(string(line[max(column, 0):]))
	if column < 0 {
		marked = strings.TrimSpace(string(line))
		column = max(0, slices.IndexFunc(line, func(r rune) bool { return !unicode.IsSpace(r) }))
	}
	start := hcl.Pos{Line: f.At.Line, Column: column + 1, Byte: len(string(line[:column]))}
	for _, before := range lines[:start.Line-1] {
		start.Byte += len(before)
	}

	end := start
	end.Byte += len(marked)
	d := Error(f.Code, hcl.Range{Filename: f.At.File, Start: start, End: end}, f.Summary, "%s", detail)
	d.Extra = Extra{Code: f.Code, Source: f.Source}

	return d
}

// word matches a text in quotes, or a word.
var word = texts.LazyRegexp(`^("(\\.|[^"\\])*"|[^\s,:\]}]*)`)

// Warning returns a diagnostic that does not stop the boot.
func Warning(
	c fault.Code,
	at hcl.Range,
	summary, detail string,
	args ...any,
) *hcl.Diagnostic {
	return newDiagnostic(hcl.DiagWarning, c, at, summary, detail, args)
}

// MakeWarning returns a copy of a diagnostic that does not stop the boot.
func MakeWarning(d *hcl.Diagnostic) *hcl.Diagnostic {
	out := *d
	out.Severity = hcl.DiagWarning

	return &out
}

// Note returns an informative diagnostic. HCL has only errors and warnings, so it is a marked warning.
func Note(c fault.Code, at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	d := newDiagnostic(hcl.DiagWarning, c, at, summary, detail, args)
	d.Extra = Extra{Code: c, Note: true}

	return d
}

// NotRead returns the error for a place of the site that needs an input missing from the recording.
func NotRead(at hcl.Range, what string) *hcl.Diagnostic {
	const text = "This recording does not contain %s. %s."

	return Error(fault.Unread, at, "Not in this recording", text, what, RecordAgain)
}

// RecordAgain is the next step where a recording lacks an answer.
const RecordAgain = "Record again with this site"

// MayNotRead returns the error for a place of the site that needs what this user may not read.
func MayNotRead(at hcl.Range, what, why string) *hcl.Diagnostic {
	return Error(
		fault.Unread, at, "This user may not look",
		"This user may not read %s: %s. Run it as root.", what, strings.TrimSuffix(why, "."),
	)
}

// Replaced returns a note that an item of the base was replaced. The caller that looks for it compares the item.
func Replaced(
	item string,
	at hcl.Range,
	summary, detail string,
	args ...any,
) *hcl.Diagnostic {
	d := Note(fault.BaseReplaced, at, summary, detail, args...)
	d.Extra = Extra{Code: fault.BaseReplaced, Note: true, Item: item}

	return d
}

// IsReplaced reports whether a diagnostic is a note of Replaced about an item.
func IsReplaced(d *hcl.Diagnostic, item string) bool {
	e, ok := d.Extra.(Extra)
	return ok && e.Code == fault.BaseReplaced && e.Item == item
}

func IsNote(d *hcl.Diagnostic) bool {
	e, ok := d.Extra.(Extra)
	return ok && e.Note
}

// Severity returns the word for how serious a diagnostic is: error, warning or note.
func Severity(d *hcl.Diagnostic) string {
	switch {
	case IsNote(d):
		return "note"
	case d.Severity == hcl.DiagWarning:
		return "warning"
	}

	return "error"
}

// OneLine returns a diagnostic in one line, with its place.
func OneLine(d *hcl.Diagnostic) string {
	s := d.Summary
	if d.Subject != nil && d.Subject.Filename != "" {
		s = Place(*d.Subject).String() + ": " + s
	}

	if d.Detail != "" {
		s += ": " + strings.TrimSuffix(strings.Join(strings.Fields(d.Detail), " "), ".")
	}

	return s
}

// Capitalize makes a text the beginning of a sentence. A name such as containerd.service stays as it is.
func Capitalize(s string) string {
	word, _, _ := strings.Cut(s, " ")
	isName := strings.Contains(strings.TrimRight(word, ".:,;"), ".")
	if s == "" || isName {
		return s
	}

	return strings.ToUpper(s[:1]) + s[1:]
}

func newDiagnostic(
	s hcl.DiagnosticSeverity, c fault.Code, at hcl.Range, summary, detail string, args []any,
) *hcl.Diagnostic {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}

	d := &hcl.Diagnostic{
		Severity: s,
		Summary:  summary,
		Detail:   detail,
		Extra:    Extra{Code: c},
	}
	if at.Filename != "" {
		d.Subject = &at
	}

	return d
}

// WithCode sets the code of diagnostics from libraries.
func WithCode(ds hcl.Diagnostics, c fault.Code) hcl.Diagnostics {
	for _, d := range ds {
		if _, ok := d.Extra.(Extra); !ok && d.Severity == hcl.DiagError {
			if _, ok := d.Extra.(Coded); !ok {
				d.Extra = codedExtra{c, d.Extra}
			}
		}
	}

	return ds
}

// Coded is an Extra with a code that wraps the Extra of a library.
type Coded interface{ DiagnosticCode() fault.Code }

type codedExtra struct {
	code  fault.Code
	inner any
}

// DiagnosticCode implements Coded.
func (w codedExtra) DiagnosticCode() fault.Code { return w.code }

// UnwrapDiagnosticExtra lets hcl.DiagnosticExtra find the Extra of the library.
func (w codedExtra) UnwrapDiagnosticExtra() any { return w.inner }

// CodeOf returns the code of a diagnostic. A diagnostic without a code is fault.Evaluation: an error in the site.
func CodeOf(d *hcl.Diagnostic) fault.Code {
	switch e := d.Extra.(type) {
	case Extra:
		return e.Code
	case Coded:
		return e.DiagnosticCode()
	}

	return fault.Evaluation
}

// Code returns the code of the first error, since later errors mostly follow from it; "" without errors.
func Code(ds hcl.Diagnostics) fault.Code {
	for _, d := range ds {
		if d.Severity == hcl.DiagError {
			return CodeOf(d)
		}
	}

	return ""
}
