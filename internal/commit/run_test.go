package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/report"
	"github.com/prelet/prelet/internal/report/condition"
	"github.com/prelet/prelet/internal/world"
)

const bootID = "0123456789abcdef0123456789abcdef"

// bench is a Run on a scratch root with fakes of systemd, of the kubelet and of time.
type bench struct {
	Run

	t    *testing.T
	log  bytes.Buffer // of the reports
	dir  string
	plan *boot.Plan

	now     time.Duration
	kubelet activation.Unit
	sick    string // the content of the file with which /healthz fails; "": with none
	mounts  []activation.Mount
	onLook  func() // called when systemd is asked for mounts
	looked  int    // how often it was
	away    bool   // the API server does not answer
	edited  string // the file that another program changed; "": none

	onWrite func(op, path string) error // called before each operation of the store that changes anything; may be nil
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), now: time.Minute}
	for _, dir := range []string{"/run", "/etc"} {
		if err := os.Mkdir(b.dir+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	b.kubelet = activation.Unit{Name: activation.DefaultUnit, Load: "loaded", Active: "active", Sub: "running"}
	b.kubelet.EnvironmentFiles = append(b.kubelet.EnvironmentFiles, struct {
		Path     string
		Optional bool
	}{filepath.Join(b.dir, "run", "kubelet.env"), false})
	b.open(false)
	t.Cleanup(func() { _ = b.Store.Close() })

	return b
}

// open opens the store and the report again, as the next process of this boot does.
func (b *bench) open(again bool) {
	b.t.Helper()

	if b.Store != nil {
		_ = b.Store.Close()
	}

	s, err := generation.Open(b.t.Context(), generation.Options{
		Root: b.dir, Dir: b.dir + "/state", BootID: bootID, Mono: func() int64 { return b.now.Microseconds() },
		Fault: func(op, path string) error {
			if b.onWrite != nil {
				return b.onWrite(op, path)
			}

			return nil
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}

	rep, err := report.New(report.Options{
		Dir: b.dir + "/run", BootID: bootID, Now: b.Now, Redact: func(s string) string { return s }, Continue: again,
		Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	if err != nil {
		b.t.Fatal(err)
	}

	b.Run = Run{
		Store: s, Report: rep,
		Machine: &activation.Machine{
			Units: b, Store: s, Probe: b, Clock: b, BootID: bootID, StateDir: b.dir + "/state",
			Gate: activation.Gate{Dir: b.dir + "/run", BootID: bootID},
		},
		Plan: func(context.Context) *boot.Plan { return b.plan },
		Options: func(p *boot.Plan) Options {
			return Options{
				Store: s, Plan: p, Recording: &world.Recording{}, NodeName: "n1", Healthz: "http://127.0.0.1:10248",
				Machine: machineid.Machine{ID: "sha256:x"},
			}
		},
	}
}

// do runs a plan with this hash, in a process of its own, and finishes the report.
func (b *bench) do(ctx context.Context, p *boot.Plan) (Result, *report.Status) {
	b.t.Helper()
	b.open(true)
	b.plan = p
	res := b.Do(ctx)

	return res, b.finish(res)
}

func (b *bench) finish(res Result) *report.Status {
	b.t.Helper()

	status, err := b.Report.Finish(res.Code, res.Summary)
	if err != nil {
		b.t.Fatal(err)
	}

	return &status
}

// complete returns a plan with one file, whose content is the plan's hash.
func complete(hash string) *boot.Plan {
	text, err := value.TextOf(cty.StringVal(hash))
	if err != nil {
		panic(err)
	}

	return &boot.Plan{
		Hash: hash, Complete: true, Kubelet: world.KubeletAns{Joined: true},
		Node: node.Node{Files: []node.File{
			{Path: "/etc/a", Kind: node.Regular, Purpose: "file", Text: text, Mode: 0o644},
		}},
	}
}

// unreachable is the plan of a node that has joined and may go on without the cluster.
func unreachable() *boot.Plan {
	return &boot.Plan{
		OnCluster: "last-good", Kubelet: world.KubeletAns{Joined: true},
		Diagnostics: hcl.Diagnostics{origin.Error(fault.ClusterUnreachable, hcl.Range{}, "no answer", "Why: so.")},
	}
}

func (b *bench) Look(context.Context, string) (activation.Unit, error) { return b.kubelet, nil }
func (b *bench) MayWait(context.Context, string) (bool, error)         { return true, nil }
func (b *bench) Reload(context.Context) error                          { return nil }
func (b *bench) Now() time.Time                                        { return time.Unix(0, 0).Add(b.now) }
func (b *bench) Monotonic() time.Duration                              { return b.now }
func (b *bench) Kubeconfig(ctx context.Context, _ string) error        { return ctx.Err() }
func (b *bench) Flags(context.Context, uint32, []string) error         { return nil }
func (b *bench) Files(ctx context.Context, _ map[string]string) error {
	if b.edited != "" {
		return fmt.Errorf("%s is not as prelet wrote it: another program changed it", b.edited)
	}

	return ctx.Err()
}

func (b *bench) Expired() string                                            { return "" }
func (b *bench) ChangedAgo([]string) (time.Duration, bool)                  { return 0, false }
func (b *bench) Configz(context.Context, kubelet.Configz) ([]string, error) { return nil, nil }

// Serving implements activation.Probe.
func (b *bench) Serving(context.Context, string) error                      { return nil }
func (b *bench) Log(context.Context, string, time.Time) ([]string, error)   { return nil, nil }
func (b *bench) StartLog(context.Context, string, uint32) ([]string, error) { return nil, nil }

func (b *bench) Mounts(context.Context, []string) ([]activation.Mount, error) {
	b.looked++
	if b.onLook != nil {
		b.onLook()
	}

	return slices.Clone(b.mounts), nil
}

func (b *bench) PatchLabels(context.Context, string, []kubelet.LabelChange) error { return nil }

func (b *bench) PatchTaints(context.Context, string, string, kubelet.TaintChange) error { return nil }
func (b *bench) PatchConditions(context.Context, string, condition.Change) error        { return nil }

func (b *bench) PatchAnnotations(context.Context, string, map[string]*string) error { return nil }

func (b *bench) Stop(context.Context, string, time.Duration) (string, error) {
	b.kubelet.Active, b.kubelet.Sub, b.kubelet.MainPID = "inactive", "dead", 0

	return "done", nil
}

func (b *bench) Act(_ context.Context, verb, unit string, _ time.Duration) (string, error) {
	if unit != activation.DefaultUnit || verb == "start" && b.kubelet.Active == "active" {
		return "done", nil
	}

	b.now += time.Second
	b.kubelet.Active, b.kubelet.Sub, b.kubelet.Started = "active", "running", b.now
	b.kubelet.MainPID++

	return "done", nil
}

func (b *bench) CreateTmpfiles(context.Context, []string, time.Duration) (string, error) {
	return "done", nil
}

func (b *bench) Sleep(ctx context.Context, d time.Duration) error {
	b.now += d

	return ctx.Err()
}

func (b *bench) Healthz(context.Context, string) error {
	if text, _ := os.ReadFile(b.dir + "/etc/a"); b.sick != "" && strings.Contains(b.sick, string(text)) {
		return errors.New("500 Internal Server Error")
	}

	return nil
}

type awayError struct{ error }

func (awayError) Unknown() bool { return true }

func (b *bench) Node(_ context.Context, name string) (kubelet.Node, error) {
	if b.away {
		return kubelet.Node{}, awayError{errors.New("the API server does not answer")}
	}

	return kubelet.Node{Name: name, Age: time.Hour}, nil
}

// damage replaces the journal, so that nothing can be read.
func (b *bench) damage() {
	b.t.Helper()
	if err := os.WriteFile(b.dir+"/state/journal.json", []byte("{"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// edit changes the managed file, as a commit that was interrupted may have.
func (b *bench) edit() {
	b.t.Helper()
	if err := os.WriteFile(b.dir+"/etc/a", []byte("edited"), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// TestRun plays whole runs, with the store on a disk and fakes around it.
func TestRun(t *testing.T) {
	type got struct {
		Code       fault.Code
		Generation int  // in status.json
		Open       bool // the gate
		Held       bool // in status.json
		HasErr     bool
		Changed    bool
	}

	for _, c := range []struct {
		name string
		play func(b *bench) (Result, *report.Status)
		want got
	}{
		{
			"the first run", func(b *bench) (Result, *report.Status) { return b.do(b.t.Context(), complete("one")) },
			got{Generation: 1, Open: true, Changed: true},
		},
		{
			"an unhealthy change is rolled back and held", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.sick = "two"

				return b.do(b.t.Context(), complete("two"))
			},
			got{Code: fault.RolledBack, Generation: 3, Open: true, Held: true, Changed: true},
		},
		{
			"unhealthy after the rollback too: nothing is held", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.Report.Held("two", "an earlier process of this boot has reported it")
				b.finish(Result{})
				b.sick = "one two"

				return b.do(b.t.Context(), complete("two"))
			},
			got{Code: fault.RollbackFails, Generation: 3, Open: true, Changed: true},
		},
		{
			"the cluster is unreachable, on a good generation", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))

				return b.do(b.t.Context(), unreachable())
			},
			got{Generation: 1, Open: true},
		},
		{
			"the cluster is unreachable, on a generation that was not judged",
			func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.away = true
				b.do(b.t.Context(), complete("two"))

				return b.do(b.t.Context(), unreachable())
			},
			got{Code: fault.ClusterUnreachable, Generation: 2, Open: true},
		},
		{
			"the cluster is unreachable, and the generation in place is unhealthy",
			func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.away = true
				b.do(b.t.Context(), complete("two"))
				b.away = false
				b.sick = "two"

				return b.do(b.t.Context(), unreachable())
			},
			got{Code: fault.RolledBack, Generation: 3, Open: true, Held: true},
		},
		{
			"SIGTERM before the commit: the generation in place stays", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))

				ctx, cancel := context.WithCancel(b.t.Context())
				cancel()
				b.loseGate()

				return b.do(ctx, unreachable())
			},
			got{Code: fault.Interrupted, Generation: 1, Open: true},
		},
		{
			"the journal is damaged, every file is as committed, and the gate is shut", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.loseGate()
				b.damage()

				return b.do(b.t.Context(), complete("two"))
			},
			got{Generation: 2, Open: true, Changed: true},
		},
		{
			"the journal is damaged, a file differs, and the gate is shut", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.loseGate()
				b.damage()
				b.edit()

				return b.do(b.t.Context(), complete("two"))
			},
			got{Code: fault.NeedsPerson, Generation: 1, HasErr: true},
		},
		{
			"the journal is damaged, a file differs, and the gate is open", func(b *bench) (Result, *report.Status) {
				b.do(b.t.Context(), complete("one"))
				b.damage()
				b.edit()

				return b.do(b.t.Context(), complete("two"))
			},
			got{Code: fault.NeedsPerson, Generation: 1, Open: true, HasErr: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			res, status := c.play(b)
			_, open, err := b.Machine.Gate.State()

			have := got{res.Code, status.Generation, open, status.Held != nil, res.Err != nil, res.Changed}
			if have != c.want || err != nil {
				t.Errorf("got %+v, error %v; want %+v\nresult %+v", have, err, c.want, res)
			}

			if c.want.Open == open && !open && !strings.Contains(b.Machine.Gate.Reason(), "journal.json") {
				t.Errorf("got reason %q of the gate; want why it is shut", b.Machine.Gate.Reason())
			}
		})
	}
}

func (b *bench) loseGate() {
	if err := os.Remove(b.Machine.Gate.Path()); err != nil {
		b.t.Fatal(err)
	}
}

// TestRestartStageGone checks that no other unit is acted on because the restart stage that named it is gone.
func TestRestartStageGone(t *testing.T) {
	b := newBench(t)
	with := complete("one")
	with.Node.Activation = &node.Activation{Unit: "site-kubelet.service", SettleMillis: 1000, TimeoutMillis: 60000}

	if res, _ := b.do(t.Context(), with); res.Code != "" {
		t.Fatalf("with the stage: got %+v, want a good generation", res)
	}

	res, status := b.do(t.Context(), complete("two"))
	if res.Code != fault.RemovalRefused || status.Generation != 1 ||
		!strings.Contains(res.Summary, "site-kubelet.service") {
		t.Errorf("without it: got %+v, generation %d; want %s on generation 1, with the unit's name",
			res, status.Generation, fault.RemovalRefused)
	}
}

// TestNodeIsAnotherMachine checks that two machines of one name are reported and that nothing is rolled back for it.
func TestNodeIsAnotherMachine(t *testing.T) {
	b := newBench(t)
	b.do(t.Context(), complete("one"))
	b.open(true)
	b.plan = complete("two")
	b.Machine.OtherMachine = func(n kubelet.Node) string { return n.Name + " is another machine" }
	res := b.Do(t.Context())
	if status := b.finish(res); res.Code != fault.OtherMachine || res.Code.Exit() != 50 || status.Generation != 2 ||
		res.Outcome.From != 0 {
		t.Errorf("got %+v, generation %d; want %s on generation 2, which stays",
			res, status.Generation, fault.OtherMachine)
	}

	if res, status := b.do(t.Context(), complete("two")); res.Code != "" || status.Generation != 2 {
		t.Errorf("when the other one is gone: got %+v, generation %d; want a good generation 2", res, status.Generation)
	}
}

// TestMounts plans after a mount has come, degrades a run without one, and records where each file lies.
func TestMounts(t *testing.T) {
	b := newBench(t)
	b.mounts = []activation.Mount{{Path: "/etc", Unit: "etc.mount", State: "inactive", Job: true}}
	b.onLook = func() {
		if b.looked == 3 {
			b.mounts = []activation.Mount{
				{Path: "/etc", Unit: "etc.mount", State: "active", Active: true},
				{Path: "/etc/a", Unit: "etc-a.mount", State: "failed"},
			}
		}
	}

	planned := 0
	b.Run.Plan = func(context.Context) *boot.Plan {
		planned++
		if b.looked < 3 {
			t.Errorf("plan %d was made after %d looks at the mounts, want it after the mount came", planned, b.looked)
		}

		return complete("one")
	}

	res := b.Do(t.Context())
	cur, err := b.Store.Current()

	if res.Err != nil || err != nil || cur == nil || cur.Entries[0].Mount != "/etc" {
		t.Fatalf("got %+v, %v, generation %+v; want it on /etc", res, err, cur)
	}

	status := b.finish(res)
	if len(status.Degraded) != 1 || status.Degraded[0].Code != "mount-missing" ||
		!strings.Contains(status.Degraded[0].Summary, "nothing is mounted at /etc/a (etc-a.mount: it is failed)") {
		t.Errorf("got %+v, want it degraded for the mount that failed", status.Degraded)
	}
}

// TestOutdatedState checks that a state which does not fit this boot goes before the kubelet starts, and stays, with a
// reason, while one runs.
func TestOutdatedState(t *testing.T) {
	const path = "/etc/memory_manager_state"
	plan := func() *boot.Plan {
		p := complete("one")
		p.Changes = []boot.Change{{
			File:   node.File{Path: path, Kind: node.Missing, Purpose: "state"},
			Old:    world.TargetAns{Exists: true, Mode: 0o600},
			Action: "delete", Why: "NUMA node 0 had 2 bytes and has 1", Outdated: true,
		}}
		return p
	}

	for _, runs := range []bool{false, true} {
		b := newBench(t)
		if err := os.WriteFile(b.dir+path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if runs {
			b.kubelet.Started, b.kubelet.MainPID = time.Second, 7
		} else {
			b.kubelet.Active, b.kubelet.Sub = "inactive", "dead"
		}

		res, status := b.do(t.Context(), plan())
		_, err := os.Stat(b.dir + path)
		isSaid := strings.Contains(fmt.Sprint(status.Degraded), "the kubelet's next start fails")
		removed := path + " is removed, and the kubelet makes a new one: NUMA node 0 had 2 bytes and has 1"
		if got := b.log.String(); strings.Contains(got, removed) == runs {
			t.Errorf("a kubelet runs: %v: got the log %q; want %q in it only if none does", runs, got, removed)
		}
		if res.Code != "" || (err == nil) != runs || isSaid != runs {
			t.Errorf("a kubelet runs: %v: got %+v, the state: %v, degraded %v; want it kept, and degraded, only then",
				runs, res, err, status.Degraded)
		}
	}
}

// TestRetryKilledAnywhere kills a run with Retry of a held plan, whose files somebody has put in place already,
// before each write of the store: a plan that is adopted is not held.
func TestRetryKilledAnywhere(t *testing.T) {
	type killed struct{}

	for at, over := 1, false; !over; at++ {
		b := newBench(t)
		b.do(t.Context(), complete("one"))
		b.open(true)
		two := complete("two")
		if err := errors.Join(
			b.Store.Hold(PlanID(two), "it was unhealthy"),
			os.WriteFile(b.dir+"/etc/a", []byte("two"), 0o644),
		); err != nil {
			t.Fatal(err)
		}

		b.open(true)
		b.plan, b.Retry = two, true
		writes := 0
		b.onWrite = func(string, string) error {
			if writes++; writes == at {
				panic(killed{})
			}

			return nil
		}
		func() {
			defer func() {
				if r := recover(); r != nil && r != (killed{}) {
					panic(r)
				}
			}()
			b.Do(t.Context())
			over = true
		}()

		b.onWrite = nil
		b.open(true)
		cur, err := b.Store.Current()
		if err != nil {
			t.Fatal(err)
		}
		if why, held := b.Store.Held(PlanID(two)); held && cur.PlanID == PlanID(two) {
			t.Errorf("killed before write %d: generation %d is adopted and its plan held (%s), want one of them",
				at, cur.Gen, why)
		}
		if over && cur.PlanID != PlanID(two) {
			t.Errorf("the run to its end: got generation %d of %s in place, want it of %s",
				cur.Gen, cur.PlanID, PlanID(two))
		}
	}
}

// A managed file that cannot be compared, on a node with a pinned generation, fails the run. The generation stays.
func TestPinnedAndNotComparable(t *testing.T) {
	b := newBench(t)
	first, _ := b.do(t.Context(), complete("one"))
	if err := b.Store.Pin(first.Outcome.Generation, "by hand"); err != nil {
		t.Fatal(err)
	}
	target := b.dir + "/etc/a"
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", target); err != nil {
		t.Fatal(err)
	}

	res, _ := b.do(t.Context(), complete("two"))
	if res.Code != fault.CannotWrite {
		t.Errorf("got code %q and %v, want %q", res.Code, res.Err, fault.CannotWrite)
	}
}

// TestReportWithoutSetID reports files that come back without setuid as a deviation.
func TestReportWithoutSetID(t *testing.T) {
	b := newBench(t)
	const why = "/opt/x is restored with mode 0755 instead of 4755"
	b.noteComparison(&generation.Comparison{WithoutSetID: []string{why}})

	status := b.finish(Result{})
	want := []report.Reason{{Code: string(fault.CannotWrite), Summary: why}}
	if !slices.Equal(status.Degraded, want) {
		t.Errorf("got %+v, want it degraded for %+v", status.Degraded, want)
	}
}

// TestHeldFileRemoved removes held.json after a rollback: the next run changes nothing and says so once, and a run with
// Retry applies the plan.
func TestHeldFileRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(*bench)
		why   string
	}{
		"by hand": {func(b *bench) {
			b.do(t.Context(), complete("two"))
			b.open(true)
			res := b.RollBack(t.Context(), generation.ByHand, func() (int, error) { return 1, nil })
			b.finish(res)
		}, "generation 1 is pinned (prelet rollback); to apply the site again: prelet rollback --release"},
		"blamed": {func(b *bench) {
			b.sick = "two"
			b.do(t.Context(), complete("two"))
			b.sick = ""
		}, "prelet run --retry tries it again"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.do(t.Context(), complete("one"))
			c.leave(b)
			if err := os.Remove(b.dir + "/state/held.json"); err != nil {
				t.Fatal(err)
			}

			res, status := b.do(t.Context(), complete("two"))
			if res.Changed || len(status.Degraded) != 1 || status.Degraded[0].Code != string(fault.Held) ||
				!strings.Contains(status.Degraded[0].Summary, c.why) {
				t.Errorf("got changed %t, degraded %+v; want no change, and degraded once (held) with %q",
					res.Changed, status.Degraded, c.why)
			}
			if text, _ := os.ReadFile(b.dir + "/etc/a"); string(text) != "one" {
				t.Errorf("got the file %q, want %q", text, "one")
			}

			b.open(true)
			b.plan, b.Retry = complete("two"), true
			if res := b.Do(t.Context()); res.Held != "" || !res.Changed {
				t.Errorf("with Retry: got held %q, changed %t; want it applied", res.Held, res.Changed)
			}
			if res, _ := b.do(t.Context(), complete("two")); res.Held != "" || res.Code != "" {
				t.Errorf("after that: got held %q, code %q; want neither", res.Held, res.Code)
			}
		})
	}
}

// TestFailedRunWithChangedFile fails on a node whose gate is open and on which another program changed a managed file:
// the message names the file, and does not report the generation as in place.
func TestFailedRunWithChangedFile(t *testing.T) {
	wrong := &boot.Plan{Diagnostics: hcl.Diagnostics{
		origin.Error(fault.WrongType, hcl.Range{}, "Wrong", "Why: so."),
	}}
	gone := &boot.Plan{Diagnostics: hcl.Diagnostics{
		origin.Error(fault.NoSite, hcl.Range{}, "No site", "Why: so."),
	}}
	for name, p := range map[string]*boot.Plan{"an error of the site": wrong, "no site": gone} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.do(t.Context(), complete("one"))
			b.edited = "/etc/a"

			_, status := b.do(t.Context(), p)
			want := "generation 1 is not in place whole: /etc/a is not as prelet wrote it: another program changed it; " +
				"the kubelet keeps running, and the next run that does not fail writes it again"
			if !strings.Contains(status.Summary, want) || strings.Contains(status.Summary, "no changes") ||
				strings.Contains(status.Summary, "in charge") {
				t.Errorf("got the summary %q; want %q in it, and no word of a generation in place", status.Summary, want)
			}
			if len(status.Degraded) == 0 || !strings.Contains(status.Degraded[0].Summary, want) {
				t.Errorf("got degraded %+v; want %q", status.Degraded, want)
			}
		})
	}
}
