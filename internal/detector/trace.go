package pluginhost

import (
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// denied is what this node or this user does not allow: no failure of the detector's.
func denied(format string, args ...any) error {
	return &fault.Fault{Code: fault.Denied, Summary: "not allowed", Why: fmt.Sprintf(format, args...)}
}

// job is one program to be run.
type job struct {
	program string
	sha256  string // "": whatever is there, as long as it stays what it is
	grants  world.Grants
	memory  int64
	request wire.Request
}

// Trace is how a run went.
type Trace struct {
	SHA256 string   // of the program
	Stderr string   // what it printed on standard error, bounded
	Lacks  []string // what of the sandbox this kernel or this user does not have
	Finds  []string // what of it something on this machine prevents
	Left   bool     // something of it could not be ended
	Step   wire.Step
	Micros map[wire.Step]int64
	Took   time.Duration
	End    time.Duration // from the answer, or the deadline, to the last process
	User   int
}

// hint is what to do next.
func (t Trace) hint() string {
	switch t.Step {
	case wire.Sandbox:
		return "`prelet detectors list` shows what is installed and locked"
	case wire.Start, wire.Handshake:
		return "`prelet detectors check` on its program shows what its author has to mend"
	}
	return "Its vendor can mend that"
}
