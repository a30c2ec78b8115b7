package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is one failure: what failed, where, why, and what to do next.
type Fault struct {
	Code    Code
	At      Place
	Summary string // what failed, without a full stop
	Why     string // the reason; empty where Err says it
	Next    string // the next step, without a full stop; may be empty
	Err     error  // the cause; may be nil
	Source  string // the text of the file of At, if its line is to be shown
}

// Place is a line of a file, or a file or server as a whole. Line and Column count from 1; 0 means none.
type Place struct {
	File         string // a path, or a URL
	Line, Column int
}

// String returns file:line:column, as far as known.
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}

	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Reason is one thing that is not as the site wants it, although the boot continues, or that an operator should know.
type Reason struct {
	Code    Code   `json:"code"`
	Summary string `json:"summary"`
}

// Error returns the whole fault on one line: place: summary: reason: cause; next step.
func (f *Fault) Error() string {
	var parts []string

	for _, part := range []string{f.At.String(), f.Summary, f.Why} {
		if part != "" {
			parts = append(parts, part)
		}
	}

	if f.Err != nil {
		parts = append(parts, f.Err.Error())
	}

	text := strings.Join(parts, ": ")
	if f.Next != "" {
		text += "; " + f.Next
	}

	return text
}

// Reason returns the reason, after the place if the reason does not contain it: "https://a:6443: connection refused".
func (f *Fault) Reason() string {
	place := f.At.String()
	if strings.Contains(f.Why, strings.TrimPrefix(place, "https://")) {
		return f.Why
	}

	return place + ": " + f.Why
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Errorf returns a fault with this code: what failed, in one line.
func (c Code) Errorf(format string, args ...any) error {
	return &Fault{Code: c, Summary: fmt.Sprintf(format, args...)}
}

// Raise returns the same failure with the code and the summary of the caller.
func (f *Fault) Raise(code Code, summary string) *Fault {
	raised := *f
	raised.Code, raised.Summary = code, summary

	return &raised
}

// CodeOf returns the code of an error: that of the outermost Fault in it, otherwise Internal. It returns "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}

	var f *Fault
	if errors.As(err, &f) {
		return f.Code
	}

	return Internal
}
