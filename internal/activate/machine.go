package activate

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// Clock is time, so that a test of two minutes takes none.
type Clock interface {
	Now() time.Time
	Monotonic() time.Duration // since boot, on the clock of Unit.Started
	// Sleep waits for d, or until ctx ends: then the error is its cause.
	Sleep(ctx context.Context, d time.Duration) error
}

// Machine is the state machine with what it works on. One process uses one Machine, from one goroutine.
type Machine struct {
	Units  Units
	Store  Store
	Probe  Probe
	Clock  Clock
	Gate   Gate
	BootID string
	// StateDir is the folder of the Store, or another that survives a reboot. One small file is kept in it: see
	// tries.go.
	StateDir string

	// Foreign says in which way a generation was made on another machine than this one, "" when nothing says so: a
	// generation that came with an image is not started on by itself, and not gone back to. Nil: none is.
	Foreign func(gen int) string

	// Note is told of every step that begins or ends, and Extend, before each wait, how long it may take at most, so
	// that the unit's own timeout can be put off. Both may be nil.
	Note   func(Event)
	Extend func(time.Duration)

	rows  []row            // nil: the table
	onRow func(row)        // each row that is done; nil but in tests
	hook  func(step, bool) // before and, with true, after each step; nil but in tests
}

// Event is one step of the machine.
type Event struct {
	Step    string // commit, gate, stop, publish, reload, restart, verify, rollback
	State   string // started, ok, failed, notice
	Summary string // one line

	Generation int // in place from now on; 0: as before
}

// Verdict is what became of the generation in place.
type Verdict string

// The verdicts. Only good and bad end a verification.
const (
	Unchanged Verdict = ""        // nothing was to be judged
	Pending   Verdict = "pending" // not judged yet: prelet-verify, or the next run, does it
	Good      Verdict = "good"
	Bad       Verdict = "bad"
	Unknown   Verdict = "unknown" // it could not be told: neither good nor a try
)

// Outcome is how it ended, when there was no error.
type Outcome struct {
	Verdict    Verdict
	Why        string     // of the verdict: what failed, or what could not be told
	Checks     []Check    // the last ones that were made
	Cause      *Cause     // of a bad verdict, by the kubelet's own word; nil: it does not say
	Generation int        // in place now
	From       int        // the generation that was left by going back, or 0
	InPlace    Verdict    // after going back: that of Generation, while Verdict is that of From
	Held       bool       // the plan of From is held
	HeldBack   string     // the gate is shut, and this is why; empty when it is open
	Code       fault.Code // of what is wrong with it; "" when nothing is
}

func (m *Machine) note(step, state, format string, args ...any) {
	if m.Note != nil {
		m.Note(Event{Step: step, State: state, Summary: fmt.Sprintf(format, args...)})
	}
}

func (m *Machine) extendTimeout(d time.Duration) {
	if m.Extend != nil {
		m.Extend(d + waitMargin)
	}
}

// Preflight looks whether a commit could be activated, and changes nothing. Its errors are of fault.Systemd: systemd
// does not answer, the unit is masked or missing, or it would start without the gate.
func (m *Machine) Preflight(ctx context.Context, unit string) (Unit, error) {
	u, err := m.Units.Look(ctx, unit)
	if err != nil {
		return Unit{}, systemdFault("looking at "+unit, err)
	}

	if f := checkUnit(unit, u, m.Gate.Path()); f != nil {
		return Unit{}, f
	}

	if _, err := m.Units.MayWait(ctx, unit); err != nil { // it is asked after the commit: then it is too late to fail
		return Unit{}, systemdFault("looking at the order of "+unit, err)
	}

	return u, nil
}

// checkUnit says why a unit cannot be activated; nil when it can.
func checkUnit(name string, u Unit, gate string) *fault.Fault {
	f := &fault.Fault{Code: fault.Systemd}

	switch {
	case u.Load == "masked":
		f.Summary = name + " is masked, so it cannot start"
		f.Next = "systemctl unmask " + name
	case u.Load == "not-found":
		f.Summary = "there is no " + name
		f.Next = "install the kubelet's package, or name its unit in the site: stage \"restart\" { unit = … }"
	case u.Load != "loaded":
		f.Summary = fmt.Sprintf("systemd could not load %s (%s)", name, u.Load)
		f.Next = "systemctl status " + name + " says why"
	case !requiresFile(u, gate):
		f.Summary = fmt.Sprintf("%s would start without waiting for prelet: no EnvironmentFile=%s is in force", name, gate)
		f.Next = fmt.Sprintf("an empty EnvironmentFile= in a later drop-in removes it (systemctl cat %s shows them all): "+
			"below that line, paste EnvironmentFile=%s and run systemctl daemon-reload", name, gate)
	default:
		return nil
	}

	return f
}
