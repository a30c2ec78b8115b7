package testfile

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// MachineResult is the result of one run over one machine. It has passed if it has no failures.
type MachineResult struct {
	File     string        `json:"file"`
	Run      string        `json:"run"`
	At       hcl.Range     `json:"-"`       // of the run
	Machine  string        `json:"machine"` // relative to the test file; the pattern, where it matches nothing
	Failures []Failure     `json:"failures"`
	Notes    []string      `json:"notes,omitempty"` // notes on a run, also on a passed one
	Took     time.Duration `json:"-"`
}

// Passed reports whether nothing has failed.
func (r MachineResult) Passed() bool { return len(r.Failures) == 0 }

// Mistakes returns each error of a site or a test file, for which no test was run, as the result of its file.
func Mistakes(diags hcl.Diagnostics) (out []MachineResult) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{}
		if d.Subject != nil {
			at = *d.Subject
		}
		out = append(out, MachineResult{
			File: at.Filename,
			Run:  d.Summary,
			At:   at,
			Failures: []Failure{{
				Kind:    KindInput,
				At:      at,
				Summary: d.Summary,
				Message: d.Detail,
			}},
		})
	}

	return out
}

// The kinds of failures.
const (
	KindAssert   = "assert"       // a condition is false, unknown or cannot be evaluated
	KindError    = "error"        // the plan has an error that the run does not expect
	KindExpected = "expect_error" // the plan lacks an error that the run expects
	KindSnapshot = "snapshot"     // the plan differs from its snapshot, or there is none
	KindInput    = "input"        // the machine, or a file of the run, cannot be used
)

// Failure is one reason why a run has failed.
type Failure struct {
	Kind    string    `json:"kind"`
	At      hcl.Range `json:"-"` // in the test file
	Summary string    `json:"summary"`
	Message string    `json:"message,omitempty"`   // meaning and advice: the error_message of an assert
	Source  string    `json:"condition,omitempty"` // of the condition
	Values  []Value   `json:"values,omitempty"`    // values of the references of the condition
	// The sides of a comparison, as text. Both are "" where nothing was compared.
	Got  string `json:"got,omitempty"`
	Want string `json:"want,omitempty"`

	Errors hcl.Diagnostics `json:"-"` // of the plan, at places of the site, or of the condition
}

// Value is the value of a part of a condition in the plan.
type Value struct {
	Name string `json:"name"` // its source: node.labels["a"]
	Text string `json:"value"`
}
