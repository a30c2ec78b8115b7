// Package conformance checks whether a detector, in any language, follows the detector protocol. A program calls Shim
// first in main and then Run, which starts the detector as prelet does, without its device, and reports for each
// finding how to fix it. The package must not write outside of a temporary folder, and ends every process that it
// started.
//
// As root the detector runs as a user without rights. If the kernel supports seccomp's user notifications, access to
// undeclared files, sockets and programs is refused and reported, as in the sandbox of a node.
package conformance

import (
	"context"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// RunOptions configure a run.
type RunOptions struct {
	Config  map[string]any // for a detector with required attributes
	Roots   []string       // folders that replace "/", with devices that the detector knows
	Args    []string       // arguments of the program
	Timeout time.Duration  // for one Detect call; 0: 10 s, prelet's default
	Memory  uint64         // in bytes; 0: 128 MiB, prelet's default
	// Patience multiplies the other limits of time, such as that of the handshake, for a machine that is busy; 0: 1, as
	// for a node.
	Patience int

	// ShimArgs are the arguments with which this program calls Shim.
	ShimArgs []string
}

// Outcome is the result of a check.
type Outcome string

// The states.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Note    Outcome = "note"    // passed, but a person should look at it
	Skipped Outcome = "skipped" // could not be checked here; Found has the reason
)

// Finding is the result of one check.
type Finding struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	State Outcome `json:"state"`
	Found string  `json:"found,omitempty"`
	Fix   string  `json:"mend,omitempty"` // how to fix it
}

// Findings is the result of a run.
type Findings struct {
	Program     string               `json:"program"`
	Description contract.Description `json:"description"`
	Checks      []Finding            `json:"checks"` // always the same checks in the same order
	Stderr      string               `json:"stderr,omitempty"`
}

// OK reports whether no check failed.
func (r Findings) OK() bool {
	return r.Count(Failed) == 0
}

// Count returns the number of checks in a state.
func (r Findings) Count(s Outcome) int {
	n := 0
	for _, c := range r.Checks {
		if c.State == s {
			n++
		}
	}

	return n
}

// Run checks a program. The error is about this machine and not about the detector, for example a folder that cannot
// be made.
func Run(ctx context.Context, program string, o RunOptions) (Findings, error) {
	roots := o.Roots
	o.Roots = nil
	for _, dir := range roots {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return Findings{Program: program}, err
		}
		o.Roots = append(o.Roots, absolute)
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	o.Patience = max(1, o.Patience)
	if o.Memory == 0 {
		o.Memory = 128 << 20
	}

	return run(ctx, program, o)
}
