package origin

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
)

// Extra rides in hcl.Diagnostic.Extra: what a message is, beside its words.
type Extra struct {
	Code   fault.Code
	Origin string // the stage's address, where there is one
	Cause  error
	Unread []string // questions that a recording was never asked, and that this place depends on
	Note   bool     // tells something, asks nothing: not even --strict minds it
}

// Error makes an error diagnostic. Detail says why and what to do next. A zero range has no place in the site.
func Error(c fault.Code, at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return newDiagnostic(hcl.DiagError, c, at, summary, detail, args)
}

// Warning makes a diagnostic that does not stop the boot.
func Warning(c fault.Code, at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return newDiagnostic(hcl.DiagWarning, c, at, summary, detail, args)
}

// Note makes a diagnostic that only tells. HCL knows errors and warnings, so it is a warning with a mark.
func Note(c fault.Code, at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	d := newDiagnostic(hcl.DiagWarning, c, at, summary, detail, args)
	d.Extra = Extra{Code: c, Note: true}

	return d
}

// NotRead says that a recording does not tell what a place of the site depends on.
func NotRead(at hcl.Range, what string, questions []string) *hcl.Diagnostic {
	d := newDiagnostic(hcl.DiagWarning, fault.Unread, at, "Not in this recording", "%s depends on what the recording was never asked: %s. The plan is not complete. Record again with this site, or ask for what was withheld.", []any{what, strings.Join(questions, ", ")})
	d.Extra = Extra{Code: fault.Unread, Unread: questions}

	return d
}

// MayNotRead says that this user may not look at what a place of the site depends on: the plan goes on without, and is
// not complete.
func MayNotRead(at hcl.Range, what, why string) *hcl.Diagnostic {
	d := newDiagnostic(hcl.DiagWarning, fault.Unread, at, "This user may not look", "%s depends on what this user may not read: %s. The plan is not complete. Run it as root.", []any{what, strings.TrimSuffix(why, ".")})
	d.Extra = Extra{Code: fault.Unread, Unread: []string{what}}

	return d
}

// IsNote says whether a diagnostic is a note.
func IsNote(d *hcl.Diagnostic) bool {
	e, ok := d.Extra.(Extra)
	return ok && e.Note
}

func newDiagnostic(s hcl.DiagnosticSeverity, c fault.Code, at hcl.Range, summary, detail string, args []any) *hcl.Diagnostic {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}

	d := &hcl.Diagnostic{Severity: s, Summary: summary, Detail: detail, Extra: Extra{Code: c}}
	if at.Filename != "" {
		d.Subject = &at
	}

	return d
}

// WithCode gives a code to the diagnostics of libraries that have none of ours.
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

// Coded is an Extra that knows its code and still carries what a library put there.
type Coded interface{ DiagnosticCode() fault.Code }

type codedExtra struct {
	code  fault.Code
	inner any
}

// DiagnosticCode implements Coded.
func (w codedExtra) DiagnosticCode() fault.Code { return w.code }

// UnwrapDiagnosticExtra lets hcl.DiagnosticExtra find what the library put there.
func (w codedExtra) UnwrapDiagnosticExtra() any { return w.inner }

// CodeOf is the code of any diagnostic; a foreign one is the site's fault by default.
func CodeOf(d *hcl.Diagnostic) fault.Code {
	switch e := d.Extra.(type) {
	case Extra:
		return e.Code
	case Coded:
		return e.DiagnosticCode()
	}

	return fault.Evaluation
}

// Code is that of the first error in a set of diagnostics, since later ones mostly follow from it. "" without errors.
func Code(ds hcl.Diagnostics) fault.Code {
	for _, d := range ds {
		if d.Severity == hcl.DiagError {
			return CodeOf(d)
		}
	}

	return ""
}

// Exit is the exit status that a set of diagnostics asks for: 0 without errors.
func Exit(ds hcl.Diagnostics) int { return Code(ds).Exit() }
