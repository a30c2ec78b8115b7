package activate

import (
	"context"
	"errors"
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
	// StateDir is the folder of the Store, or another that survives a reboot. One small file is kept in it: see tries.go.
	StateDir string

	// Foreign says in which way a generation was made on another machine than this one, "" when nothing says so: a generation that
	// came with an image is not started on by itself, and not gone back to. Nil: none is.
	Foreign func(gen int) string

	// Note is told of every step that begins or ends, and Extend, before each wait, how long it may take at most, so that the
	// unit's own timeout can be put off. Both may be nil.
	Note   func(Event)
	Extend func(time.Duration)

	until time.Duration // when the activation that is going on shall have ended; 0: nobody said
}

// bounded begins an activation, unless one is going on: from now on no wait lasts longer than the plan's bound. The caller ends
// it by what is returned.
func (m *Machine) bounded(p Plan) (end func()) {
	if m.until != 0 || p.Bound <= 0 {
		return func() {}
	}
	m.until = m.Clock.Monotonic() + p.Bound
	return func() { m.until = 0 }
}

// within cuts a wait to what is left of the activation's bound, but not below least.
func (m *Machine) within(d, least time.Duration) time.Duration {
	if m.until == 0 {
		return d
	}
	return min(d, max(least, m.until-m.Clock.Monotonic()))
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

const (
	stopWait   = 100 * time.Second // longer than systemd's own TimeoutStopSec=90s, so that its answer comes first
	leastStop  = 5 * time.Second   // what a kubelet gets to stop in when the bound is up: going back needs it stopped
	lockWait   = 30 * time.Second
	waitMargin = 30 * time.Second
)

func (m *Machine) foreign(gen int) string {
	if m.Foreign == nil {
		return ""
	}
	return m.Foreign(gen)
}

// lastGood is the last generation that was good on this machine. One that was good on the machine that an image was made of says
// nothing of this one, and has that one's name: numbers grow, so if the last one is foreign, there is none of ours.
func (m *Machine) lastGood() (gen int, ok bool) {
	gen, ok = m.Store.LastGood()
	if ok && m.foreign(gen) != "" {
		return 0, false
	}
	return gen, ok
}

func (m *Machine) note(step, state, format string, args ...any) {
	if m.Note != nil {
		m.Note(Event{Step: step, State: state, Summary: fmt.Sprintf(format, args...)})
	}
}

func (m *Machine) extend(d time.Duration) {
	if m.Extend != nil {
		m.Extend(d + waitMargin)
	}
}

// Ground is what Preflight saw.
type Ground struct {
	Unit    Unit
	MayWait bool // a start may be waited for from here
}

// Preflight looks whether a commit could be activated, and changes nothing. Its errors are of fault.Systemd: systemd does not
// answer, the unit is masked or missing, or it would start without the gate.
func (m *Machine) Preflight(ctx context.Context, unit string) (Ground, error) {
	u, err := m.Units.Look(ctx, unit)
	if err != nil {
		return Ground{}, systemdTrouble("looking at "+unit, err)
	}
	switch u.Load {
	case "loaded":
	case "masked":
		return Ground{}, &fault.Fault{Code: fault.Systemd, Summary: unit + " is masked, so it cannot start", Next: "systemctl unmask " + unit}
	case "not-found":
		return Ground{}, &fault.Fault{Code: fault.Systemd, Summary: "there is no " + unit, Next: "install the kubelet's package, or name its unit in the site: stage \"restart\" { unit = … }"}
	default:
		return Ground{}, &fault.Fault{Code: fault.Systemd, Summary: fmt.Sprintf("systemd could not load %s (%s)", unit, u.Load), Next: "systemctl status " + unit + " says why"}
	}
	if !requires(u, m.Gate.Path()) {
		return Ground{}, &fault.Fault{Code: fault.Systemd,
			Summary: fmt.Sprintf("%s would start without waiting for prelet: no EnvironmentFile=%s is in force", unit, m.Gate.Path()),
			Next:    fmt.Sprintf("an empty EnvironmentFile= in a later drop-in removes it (systemctl cat %s shows them all): below that line, paste EnvironmentFile=%s and run systemctl daemon-reload", unit, m.Gate.Path())}
	}
	may, err := m.Units.MayWait(ctx, unit)
	if err != nil {
		return Ground{}, systemdTrouble("looking at the order of "+unit, err)
	}
	return Ground{Unit: u, MayWait: may}, nil
}

// saw notes a unit that is alive before a commit: who recovers without systemd must not take it for one that the gate has kept.
func (m *Machine) saw(u Unit) error {
	if !alive(u) {
		return nil
	}
	if err := m.Gate.Saw(); err != nil {
		return systemdTrouble("noting that "+u.Name+" runs", err)
	}
	return nil
}

// errUnseen is wrapped where nobody could say whether the unit runs.
var errUnseen = errors.New("so it may be running")

// keepOut shuts the gate and stops the unit, so that no process reads the files that are about to change. What ran, or was
// about to, is owed a start. After an error no file may change; what is about that is for Recover.
func (m *Machine) keepOut(ctx context.Context, unit, why string) error {
	if err := m.Gate.Shut(why); err != nil {
		return err
	}
	m.note("gate", "ok", "shut: %s", why)
	u, err := m.Units.Look(ctx, unit)
	if err != nil {
		return fmt.Errorf("looking at %s: %w (%w)", unit, err, errUnseen)
	}
	if !alive(u) {
		return nil
	}
	if wanted(u) { // one that somebody is stopping is not started by us
		if err := m.Gate.Owe(unit); err != nil {
			return err
		}
	}
	m.note("stop", "started", "%s", unit)
	wait := m.within(stopWait, leastStop)
	m.extend(wait)
	result, err := m.Units.Stop(ctx, unit, wait)
	if err != nil {
		return fmt.Errorf("stopping %s: %w", unit, err)
	}
	if u, err = m.Units.Look(ctx, unit); err != nil {
		return fmt.Errorf("looking at %s: %w", unit, err)
	}
	if alive(u) {
		return fmt.Errorf("%s did not stop (job: %s; it is %s/%s)", unit, result, u.Active, u.Sub)
	}
	m.note("stop", "ok", "%s", unit)
	return nil
}

// open lets the kubelet start on a generation that is in place whole.
func (m *Machine) open(gen int) error {
	if err := m.Gate.Open(gen); err != nil {
		return err
	}
	if m.Note != nil {
		m.Note(Event{Step: "gate", State: "ok", Summary: fmt.Sprintf("open on generation %d", gen), Generation: gen})
	}
	return nil
}

// errand says what bringUp may do.
type errand struct {
	mayWait bool          // a start may be waited for; the lock must be free then
	wait    time.Duration // how long
	opened  bool          // we opened the gate just now: one that failed at it, or waits to try again, is to try now
	since   time.Duration // a process that started before this has not read the files
}

// bringUp asks for a start of the unit if that is owed, if the gate held it up, or if what runs has not read the files. It says
// how the job ended; empty when none was asked for, because the unit runs, is on its way, or nobody wants it to run.
func (m *Machine) bringUp(ctx context.Context, unit string, e errand) (result string, err error) {
	steady := context.WithoutCancel(ctx)
	u, err := m.Units.Look(steady, unit)
	if err != nil {
		return "", fmt.Errorf("looking at %s: %w", unit, err)
	}
	old := u.Started < e.since
	waits := waitsToRestart(u) || givenUp(u)
	if !m.Gate.Owed(unit) && !(waits && (e.opened || old)) && !(u.Active == "active" && old) {
		return "", nil
	}
	m.note("restart", "started", "%s", unit)
	// What we stopped has to come up again, also when we are told to stop: then the start is asked for and not waited for.
	if e.mayWait && ctx.Err() == nil {
		m.extend(e.wait)
		result, err = m.Units.Restart(ctx, unit, e.wait)
	}
	if !e.mayWait || ctx.Err() != nil {
		result, err = m.Units.Restart(steady, unit, 0)
	}
	if err != nil {
		return result, fmt.Errorf("restarting %s: %w", unit, err)
	}
	if result != jobDependency { // that start never happened: it is still owed
		if err := m.Gate.Paid(); err != nil {
			return result, err
		}
	}
	state := "ok"
	if result != jobDone && result != jobQueued {
		state = "notice"
	}
	m.note("restart", state, "%s: %s", unit, result)
	return result, nil
}

// relock takes the lock again, also when ctx has ended: a verdict has to be written, and others hold it for a moment only.
func (m *Machine) relock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	return m.Store.Relock(ctx)
}
