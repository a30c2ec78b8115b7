// Package fault has the one error type of prelet. A function that fails makes a Fault where the failure happens, and
// the same value reaches main: its code gives the exit status, the page and the text. It imports nothing of prelet.
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
}

// Place is a line of a file, or a file or server as a whole. Line and Column count from 1; 0 means that there is none.
type Place struct {
	File         string // a path, or a URL
	Line, Column int
}

// String writes file:line:column, as far as it is known.
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}

	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is the whole fault on one line: place: summary: reason: cause; next step.
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

// Reason is why, after the place where that is not named already: "https://a:6443: connection refused".
func (f *Fault) Reason() string {
	place := f.At.String()
	if strings.Contains(f.Why, strings.TrimPrefix(place, "https://")) {
		return f.Why
	}

	return place + ": " + f.Why
}

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Raise is the same failure with the code and the summary of whoever asked, who knows what it means to them.
func (f *Fault) Raise(code Code, summary string) *Fault {
	raised := *f
	raised.Code, raised.Summary = code, summary

	return &raised
}

// CodeOf is the code of an error: that of the outermost Fault in it, or else Internal. It is "" for nil.
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
