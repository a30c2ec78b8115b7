package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/live"
	"github.com/prelet/prelet/internal/machineid"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/report"
)

// The units that the packages ship.
const (
	bootUnit   = "prelet.service"
	applyUnit  = "prelet-apply.service"
	verifyUnit = "prelet-verify.service"
)

// host is the machine that a command works on: its folders, and what stands between prelet and systemd. A test gives
// another than the one below us.
type host struct {
	root     string // "" is /
	runDir   string
	bootID   string
	hostname string
	self     string // the unit that runs this process; "" for none of prelet's
	systemd  bool   // it is the init of this machine

	units  manager
	probe  activate.Probe
	clock  activate.Clock
	notify notifier
	log    *slog.Logger   // the journal; nil without one
	jitter func() float64 // in [0,1)
}

// manager is systemd.
type manager interface {
	activate.Units
	Start(ctx context.Context, unit string, wait time.Duration) (string, error)
	Close()
}

// notifier is the notify socket.
type notifier interface {
	Status(line string) error
	Extend(d time.Duration) error
}

// host is the machine below us, unless a test gave another.
func (a *app) host(ctx context.Context) *host {
	if a.on != nil {
		return a.on
	}
	name, _ := os.Hostname() // then the Node object is not asked for
	h := &host{
		runDir: "/run/prelet", bootID: live.BootID(a.getenv), hostname: name, systemd: live.HasSystemd(),
		units: live.NewUnits(ctx), probe: probe.Probe{Now: time.Now, Credentials: live.SystemCredentials(a.getenv)}, clock: live.Clock{}, notify: live.Notifier{},
		jitter: rand.Float64,
	}
	switch unit := live.OwnUnit(live.SelfCgroup()); unit {
	case bootUnit, applyUnit, verifyUnit:
		h.self = unit
		h.log = live.JournalLog(a.redact) // by hand, what is printed is enough
		if h.log != nil && !a.served {
			a.stdout = io.Discard // the journal has it already
		}
	}
	return h
}

func (h *host) stateDir() string { return filepath.Join("/", h.root, "var/lib/prelet") }

func (h *host) gate() activate.Gate { return activate.Gate{Dir: h.runDir, BootID: h.bootID} }

// off says whether somebody turned prelet off on the kernel command line.
func (h *host) off() bool { return live.CommandLine(h.root)["prelet"] == "off" }

// lock opens the generations for writing.
func (h *host) lock(ctx context.Context) (*generation.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	return generation.Open(ctx, h.storeOptions())
}

func (h *host) storeOptions() generation.Options {
	return generation.Options{Root: h.root, Dir: h.stateDir(), Now: h.clock.Now, BootID: h.bootID, Mono: func() int64 { return h.clock.Monotonic().Microseconds() }}
}

// report begins the report of a command that writes. again says that it adds to what an earlier process of this boot told.
func (a *app) report(h *host, again bool) *report.Reporter {
	rep, err := report.New(report.Options{Dir: h.runDir, BootID: h.bootID, Version: version, Now: h.clock.Now, Redact: a.redact,
		Notify: h.notify.Status, Log: h.log, Continue: again})
	if err != nil { // what prelet does never depends on who is told
		fmt.Fprintln(a.stderr, "prelet:", a.redact(err.Error()))
	}
	return rep
}

func (h *host) machine(store *generation.Store, rep *report.Reporter) *activate.Machine {
	var notes func(activate.Event)
	if rep != nil {
		notes = apply.Notes(rep)
	}
	return &activate.Machine{Units: h.units, Store: store, Probe: h.probe, Clock: h.clock, Gate: h.gate(), BootID: h.bootID, StateDir: h.stateDir(),
		Foreign: func(gen int) string { return machineid.Foreign(store, gen, machineid.Of(h.root)) },
		Note:    notes, Extend: func(d time.Duration) { _ = h.notify.Extend(d) }}
}

// ready makes the run folder, which the units have from systemd.
func (h *host) ready() error {
	if err := os.MkdirAll(h.runDir, 0o755); err != nil {
		return failure(fault.CannotWrite, "%s: %s; prelet changes a node as root only (with --root DIR, files below a folder of yours)", h.runDir, err)
	}
	return nil
}

// elsewhere refuses a --root that is the running system's: its kubelet would read files that change under it. Where systemd is not
// the init, as where an image is built, no unit runs.
func (a *app) elsewhere(root string) error {
	systemd := live.HasSystemd()
	if a.on != nil {
		systemd = a.on.systemd
	}
	here, err := os.Stat("/")
	if err != nil || !systemd {
		return err
	}
	if there, err := os.Stat(root); err == nil && os.SameFile(here, there) {
		return failure(fault.Usage, "--root %s is the running system, whose kubelet would read files while they change: leave --root out", root)
	}
	return nil
}

// lockNode takes the lock for a command that changes the node, or tells what keeps it from that.
func (a *app) lockNode(ctx context.Context, h *host) (*generation.Store, error) {
	if err := h.ready(); err != nil {
		return nil, err
	}
	store, err := h.lock(ctx)
	if err != nil {
		return nil, a.storeFailure(err)
	}
	return store, nil
}

const (
	keepAlive    = 30 * time.Second
	requestEvery = 500 * time.Millisecond
	// mostOpenWait is how long prelet.service may wait before it tries again while the gate is open: a kubelet that
	// crashes meanwhile starts only when prelet.service has ended.
	mostOpenWait = 10 * time.Second
)

// patience puts the unit's own timeout off for as long as a plan is made: the site's deadline bounds it, and may be longer.
func (h *host) patience() (stop func()) {
	t := time.NewTicker(keepAlive)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-t.C:
				_ = h.notify.Extend(3 * keepAlive)
			case <-done:
				return
			}
		}
	}()
	return func() { t.Stop(); close(done) }
}

// again waits before a run that systemd tries once more by itself, longer each time. A run that somebody asked for
// begins at once, and a request that comes meanwhile (asked) ends the wait.
func (h *host) again(ctx context.Context, attempts apply.Attempts) (asked bool, err error) {
	n := attempts.Failures()
	if n == 0 || h.self != bootUnit && h.self != applyUnit {
		return false, nil
	}
	if u, err := h.units.Look(ctx, h.self); err == nil && u.Restarts == 0 {
		return false, attempts.Clear()
	}
	wait := apply.Wait(n, h.jitter())
	if _, open, err := h.gate().State(); err == nil && open {
		wait = min(wait, mostOpenWait)
	}
	_ = h.notify.Extend(wait + 4*keepAlive)
	_ = h.notify.Status(fmt.Sprintf("%s; waiting %s before try %d (systemctl restart %s: now)", h.before(), wait.Round(time.Second), n+1, h.self))
	for end := h.clock.Monotonic() + wait; h.clock.Monotonic() < end; {
		if len(waiting(h.runDir, requestPrefix)) > 0 {
			return true, nil
		}
		if err := h.clock.Sleep(ctx, min(requestEvery, end-h.clock.Monotonic())); err != nil {
			return false, failure(fault.Systemd, "stopped while waiting to try again: %s", err)
		}
	}
	return false, nil
}

// before is how the run before ended, in few words.
func (h *host) before() string {
	s, err := report.Load(h.runDir)
	if err != nil || s.Summary == "" {
		return "the run before failed"
	}
	if r := []rune(s.Summary); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s.Summary
}
