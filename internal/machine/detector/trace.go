package detector

import (
	"fmt"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/internal/model/tape"
)

// denied returns an error for what this node or this user does not allow. It is not a failure of the detector.
func denied(format string, args ...any) error {
	return &fault.Fault{
		Code:    fault.Denied,
		Summary: "not allowed",
		Why:     fmt.Sprintf(format, args...),
	}
}

// job is one program to run.
type job struct {
	program string
	sha256  string // empty: any content
	grants  tape.Grants
	memory  int64
	request wire.Request
}

// Trace reports how a run went.
type Trace struct {
	SHA256 string   // of the program
	Stderr string   // beginning and end of its standard error
	Lacks  []string // parts of the sandbox that this kernel or this user does not have
	Finds  []string // parts of the sandbox that something on this machine prevents
	Step   wire.Step
}

// hint returns the next step after a failure.
func (t Trace) hint() string {
	switch t.Step {
	case wire.Sandbox:
		return "Run `prelet detectors list` to see what is installed and locked"
	case wire.Start, wire.Handshake:
		return "Run `prelet detectors check` on its program to see what to fix"
	}

	return reportToVendor
}

// reportToVendor is the hint for a failure that a site cannot fix.
const reportToVendor = "Report it to the detector's vendor"
