package activation

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/platform/unitfile"
)

// sim is a clock that only advances in sleeps and waits. Scheduled events run in order.
type sim struct {
	now   time.Duration
	set   time.Duration // how much the wall clock was set
	queue events
	order int
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]

	return last
}

func (s *sim) schedule(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.queue, event{s.now + d, s.order, do})
}

func (s *sim) advance(d time.Duration) { s.runUntil(d, func() bool { return false }) }

// runUntil advances the clock until stop returns true, for d at most.
func (s *sim) runUntil(d time.Duration, stop func() bool) {
	end := s.now + d
	for !stop() && len(s.queue) > 0 && s.queue[0].at <= end {
		next := heap.Pop(&s.queue).(event)
		s.now = max(s.now, next.at)
		next.do()
	}

	if !stop() {
		s.now = max(s.now, end)
	}
}

func (s *sim) Now() time.Time           { return time.Unix(1_800_000_000, 0).Add(s.now + s.set) }
func (s *sim) Monotonic() time.Duration { return s.now }
func (s *sim) Sleep(ctx context.Context, d time.Duration) error {
	s.runUntil(d, func() bool { return ctx.Err() != nil })
	return context.Cause(ctx)
}

// job is a queued job of the kubelet's unit.
type job struct {
	id     uint32
	kind   string // start, restart, stop
	result string // after it has ended
}

// fakeSystemd behaves as systemd 252 does for one unit: jobs merge or replace one another, a start waits for the unit
// that it is ordered after, the gate is read when the process is about to start, a dead process is started again after
// RestartSec=, and NRestarts, MainPID and Result change as in systemd.
type fakeSystemd struct {
	t    testing.TB
	clk  *sim
	unit Unit
	gate string

	settings

	startLimit   time.Duration // TimeoutStartSec= of Type=notify
	mounts       []Mount
	ordered      bool // prelet.service has a job, and the unit is ordered after it
	insidePrelet bool // the caller is that prelet.service
	unreachable  bool // D-Bus does not answer

	other     Unit                  // another unit
	acts      []string              // what was done with it
	otherEnds func() (ended string) // how it ends after a restart: "" well

	job     *job
	jobs    uint32
	pids    uint32
	life    int            // counts processes and stops: events of an old process are dropped
	skips   func() bool    // a Condition= of the unit does not hold; nil: all hold
	behave  func() conduct // of a process that starts now, from its files
	conduct conduct
	starts  []startSeen
	reloads int
	unread  int // systemd has read the unit file after so many reloads

	// lockHeld reports whether the caller holds the store's lock: it must not wait for a start then.
	lockHeld func() bool
	onStart  func() // at each exec
}

// settings of units that a Unit does not have.
type settings struct {
	RestartSec      time.Duration //nolint:staticcheck // systemd's name
	NoRestart       bool          // Restart=no
	StopTakes       time.Duration // how long a stop takes
	DependencyFails bool          // a required unit fails
	Blind           bool          // systemd does not notice that a unit file changed
	SkipsWith       string        // a Condition= does not hold with this word in the configuration
	Healthy         bool          // the other unit, whatever its file says
}

// conduct is the behaviour of a kubelet process.
type conduct struct {
	ready   time.Duration // until READY=1; negative: never
	dies    time.Duration // after its start; 0: never
	result  string        // of the unit when it dies; "": exit-code
	healthz bool
	pods    string // why pods fail: driver, alone; "" when they do not
}

type startSeen struct {
	at   time.Duration
	gate string // content of the gate
}

var errBus = errors.New("connection closed by foreign host")

func (f *fakeSystemd) Look(_ context.Context, name string) (Unit, error) {
	if f.unreachable {
		return Unit{}, errBus
	}

	if name == f.other.Name && name != "" {
		return f.other, nil
	}

	if name != f.unit.Name {
		return Unit{Definition: unitfile.Definition{Name: name, Load: "not-found"}, State: unitfile.State{Active: "inactive", Sub: "dead"}}, nil
	}

	u := f.unit
	if f.job != nil {
		u.Job = f.job.id
	}

	u.Unread = f.reloads < f.unread && !f.Blind

	return u, nil
}

func (f *fakeSystemd) Mounts(context.Context, []string) ([]Mount, error) {
	if f.unreachable {
		return nil, errBus
	}

	return f.mounts, nil
}

func (f *fakeSystemd) MayWait(context.Context, string) (bool, error) {
	if f.unreachable {
		return false, errBus
	}

	return !(f.insidePrelet && f.ordered), nil
}

func (f *fakeSystemd) Reload(context.Context) error {
	if f.unreachable {
		return errBus
	}

	f.clk.advance(300 * time.Millisecond)
	f.reloads++

	return nil
}

func (f *fakeSystemd) Restart(ctx context.Context, _ string, wait time.Duration) (string, error) {
	return f.ask(ctx, "restart", wait)
}

func (f *fakeSystemd) Stop(ctx context.Context, _ string, wait time.Duration) (string, error) {
	return f.ask(ctx, "stop", wait)
}

func (f *fakeSystemd) Act(ctx context.Context, verb, name string, wait time.Duration) (string, error) {
	if name == DefaultUnit {
		return f.ask(ctx, verb, wait)
	}

	if f.unreachable {
		return "unanswered", errBus
	}

	f.acts = append(f.acts, verb+" "+name)
	if name != f.other.Name {
		return "done", nil
	}

	f.clk.advance(10 * time.Millisecond)
	if verb != "reload" {
		f.other.Since, f.other.Started = f.clk.now, f.clk.now
		f.other.MainPID += 100
	}
	f.other.Active, f.other.Sub, f.other.Result = "active", "running", "success"

	switch ended := f.otherEnds(); {
	case ended != "" && verb == "reload": // the process goes on with what it has read before
		return ended, nil
	case ended != "":
		f.other.Active, f.other.Sub, f.other.Result = "failed", "failed", "exit-code"
		return ended, nil
	case wait == 0:
		return "queued", nil
	}

	return "done", nil
}

func (f *fakeSystemd) CreateTmpfiles(_ context.Context, files []string, _ time.Duration) (string, error) {
	f.acts = append(f.acts, "create "+strings.Join(files, " "))

	return "done", nil
}

func (f *fakeSystemd) ask(ctx context.Context, kind string, wait time.Duration) (string, error) {
	if f.unreachable {
		return "unanswered", errBus
	}

	if kind != "stop" && wait > 0 {
		if f.lockHeld() {
			f.t.Errorf("%s: got a wait for a start with the lock held, want no lock: prelet.service waits for it",
				f.clk.now)
		}

		if f.insidePrelet && f.ordered {
			f.t.Errorf("%s: prelet.service waits for a start that waits for prelet.service; want no wait", f.clk.now)
		}
	}

	j := f.enqueue(kind)

	if wait == 0 {
		return "queued", nil
	}

	f.clk.runUntil(wait, func() bool { return j.result != "" || ctx.Err() != nil || f.unreachable })

	switch {
	case j.result != "":
		return j.result, nil
	case f.unreachable:
		return "unanswered", errBus
	case ctx.Err() != nil:
		return "unanswered", context.Cause(ctx)
	}

	return "unanswered", nil
}

// enqueue installs a job in mode replace: a job of the same direction merges, one of the other cancels.
func (f *fakeSystemd) enqueue(kind string) *job {
	if old := f.job; old != nil {
		if (old.kind == "stop") == (kind == "stop") {
			if kind == "restart" {
				old.kind = kind
			}

			f.clk.schedule(0, f.runJob)

			return old
		}

		f.end("canceled")
	}

	f.jobs++
	f.job = &job{id: f.jobs, kind: kind}
	f.clk.schedule(0, f.runJob)

	return f.job
}

func (f *fakeSystemd) end(result string) {
	if f.job != nil {
		f.job.result = result
		f.job = nil
	}
}

func (f *fakeSystemd) runJob() {
	j := f.job
	if j == nil {
		return
	}

	if j.kind == "stop" {
		f.clk.schedule(max(f.StopTakes, 2*time.Millisecond), func() {
			if f.job == j {
				f.setDead("inactive", "dead", "success")
				f.end("done")
			}
		})

		return
	}

	if f.ordered || f.unit.Active == "activating" && f.unit.Sub == "start" && j.kind == "start" {
		return // endPrelet runs it, or the start is in progress
	}

	if f.DependencyFails {
		f.end("dependency")
		return
	}

	if j.kind == "start" && f.unit.Active == "active" {
		f.end("done")
		return
	}

	if f.unit.MainPID != 0 {
		f.setDead("inactive", "dead", "success")
	}

	j.kind = "start"
	f.unit.Restarts = 0 // requested start
	f.exec()
}

// endPrelet ends prelet.service's job, so that jobs ordered after it run.
func (f *fakeSystemd) endPrelet() {
	f.ordered = false
	f.runJob()
}

func (f *fakeSystemd) setDead(active, sub, result string) {
	f.life++
	f.unit.Active, f.unit.Sub, f.unit.Result, f.unit.MainPID = active, sub, result, 0
	f.unit.NextStart = 0
}

// exec is the moment at which systemd reads EnvironmentFile= and starts the process.
func (f *fakeSystemd) exec() {
	text, err := os.ReadFile(f.gate)
	if f.unit.RequiresFile(f.gate) && err != nil {
		f.fail("resources")
		return
	}

	if f.skips != nil && f.skips() {
		f.setDead("inactive", "dead", "success")
		f.unit.Skipped = f.clk.now
		f.end("done")

		return
	}

	f.unit.Skipped = 0
	f.starts = append(f.starts, startSeen{f.clk.now, strings.TrimSpace(string(text))})
	if f.onStart != nil {
		f.onStart()
	}

	f.pids++
	f.life++
	life := f.life
	f.conduct = f.behave()
	f.unit.MainPID, f.unit.Started, f.unit.Result = 1000+f.pids, f.clk.now, "success"
	f.unit.Active, f.unit.Sub = "activating", "start"
	f.unit.NextStart = 0
	f.schedule(life, f.conduct.ready, func() {
		f.unit.Active, f.unit.Sub = "active", "running"
		f.end("done")
	})

	if f.conduct.ready < 0 {
		f.schedule(life, f.startLimit, func() { f.fail("timeout") })
	}

	if f.conduct.dies > 0 {
		f.schedule(life, f.conduct.dies, func() { f.fail(cmp.Or(f.conduct.result, "exit-code")) })
	}
}

func (f *fakeSystemd) schedule(life int, d time.Duration, do func()) {
	if d < 0 {
		return
	}

	f.clk.schedule(d, func() {
		if f.life == life {
			do()
		}
	})
}

// fail ends a process without a request, or a start that was not possible.
func (f *fakeSystemd) fail(result string) {
	if result == "timeout" {
		f.end("timeout")
	} else {
		f.end("failed")
	}

	if f.NoRestart {
		f.setDead("failed", "failed", result)
		return
	}

	f.setDead("activating", "auto-restart", result)
	f.unit.NextStart = f.clk.now + f.RestartSec
	f.schedule(f.life, f.RestartSec, func() {
		f.unit.Restarts++
		f.exec()
	})
}

// stopByHand is systemctl stop.
func (f *fakeSystemd) stopByHand() { f.enqueue("stop") }

func gatePath(dir string) string { return filepath.Join(dir, gateFile) }

// TestFakeSystemd compares the fake with a real boot (systemd 252.39): the scenarios rely on this behaviour.
func TestFakeSystemd(t *testing.T) {
	dir := t.TempDir()
	clk := &sim{now: time.Second}
	f := &fakeSystemd{
		t:          t,
		clk:        clk,
		gate:       gatePath(dir),
		settings:   settings{RestartSec: 10 * time.Second},
		startLimit: 90 * time.Second,
		lockHeld:   func() bool { return false },
	}
	f.unit = kubeletUnit(dir)
	f.behave = func() conduct { return conduct{ready: 50 * time.Millisecond, healthz: true} }
	look := func() Unit { u, _ := f.Look(t.Context(), f.unit.Name); return u }

	// A start behind prelet.service: restart without waiting merges with it, and the unit starts once.
	f.ordered = true
	f.enqueue("start")

	before := look().Job
	if r, _ := f.Restart(t.Context(), "", 0); r != "queued" || look().Job != before {
		t.Fatalf("restart at boot: %s, job %d, want it merged with job %d", r, look().Job, before)
	}

	// The gate is missing when prelet has ended: Result=resources, auto-restart.
	f.endPrelet()
	clk.advance(time.Second)

	if u := look(); !isWaitingToRestart(u) || u.Result != "resources" || u.MainPID != 0 || len(f.starts) != 0 {
		t.Fatalf("without gate: %+v; want a wait for the restart after result resources", u)
	}

	clk.advance(10 * time.Second)

	if u := look(); u.Restarts != 1 {
		t.Fatalf("NRestarts = %d after RestartSec, want 1", u.Restarts)
	}

	// With the gate: restart does not wait for RestartSec, and sets NRestarts back.
	must(t, os.WriteFile(f.gate, []byte("PRELET_GENERATION=1\n"), 0o600))

	at := clk.now
	r, _ := f.Restart(t.Context(), "", time.Minute)
	if r != "done" || clk.now-at > time.Second || look().Restarts != 0 {
		t.Fatalf("restart out of auto-restart: %s after %s, NRestarts %d; want done at once, and no restarts counted",
			r, clk.now-at, look().Restarts)
	}

	// A process that dies 3 s after "done".
	f.behave = func() conduct { return conduct{ready: 0, dies: 3 * time.Second} }

	pid := look().MainPID
	if r, _ := f.Restart(t.Context(), "", time.Minute); r != "done" || look().MainPID == pid || look().MainPID == 0 {
		t.Fatalf("restart: %s, pid %d → %d; want done and another pid", r, pid, look().MainPID)
	}

	clk.advance(3 * time.Second)

	if u := look(); !isWaitingToRestart(u) || u.Result != "exit-code" {
		t.Fatalf("after it died: %+v; want a wait for the restart after exit-code", u)
	}

	// A stop cancels the start that is queued.
	f.ordered = true
	j := f.enqueue("start")
	f.stopByHand()
	clk.advance(time.Second)

	if u := look(); j.result != "canceled" || u.Active != "inactive" || u.Result != "success" {
		t.Fatalf("stop: job %q, %+v; want canceled, and inactive with success", j.result, u)
	}

	// Type=notify that never says READY=1.
	f.ordered = false

	f.behave = func() conduct { return conduct{ready: -1} }
	if r, _ := f.Restart(t.Context(), "", 2*time.Minute); r != "timeout" {
		t.Fatalf("never ready: %s; want timeout", r)
	}

	f.stopByHand()
	clk.advance(time.Second)

	f.DependencyFails = true
	if r, _ := f.Restart(t.Context(), "", time.Minute); r != "dependency" || look().Active != "inactive" {
		t.Fatalf("dependency: %s; want dependency", r)
	}
}

func kubeletUnit(dir string) Unit {
	u := Unit{Definition: unitfile.Definition{Name: DefaultUnit, Load: "loaded", File: "enabled"}, State: unitfile.State{Active: "inactive", Sub: "dead", Result: "success"}}
	u.EnvironmentFiles = append(u.EnvironmentFiles, unitfile.EnvironmentFile{Path: gatePath(dir)})

	return u
}
