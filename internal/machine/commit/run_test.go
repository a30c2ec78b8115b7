package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

const bootID = "0123456789abcdef0123456789abcdef"

// bench is a Run on a scratch root with fakes of systemd, of the kubelet and of time.
type bench struct {
	Run
	activation.Probe // nil: of what no test asks for
	activation.Units

	t    *testing.T
	log  bytes.Buffer // of the reports
	dir  string
	boot string
	plan *evaluate.Plan

	onPlan func() // called before each plan; may be nil

	now     time.Duration
	jump    time.Duration // of the wall clock
	kubelet activation.Unit
	sick    string // the content of the file with which /healthz fails; "": with none
	mounts  []activation.Mount
	onLook  func() // called when systemd is asked for mounts
	onWatch func() // called when the kubelet's health is asked for
	looked  int    // how often it was
	away    bool   // the API server does not answer

	unjoined bool // the kubelet has no kubeconfig

	whyNotJoined string // by its files
	lastForeign  int    // generations to this one are another machine's
	isRival      bool   // the Node is another machine's
	hasRun       bool   // prelet.service has ended in this boot
	isBoot       bool   // this is prelet.service at boot

	onWrite func(op, path string) error // called before each operation of the store that changes anything; may be nil
}

func newBench(t *testing.T) *bench { return startBench(t, t.TempDir()) }

func startBench(t *testing.T, dir string) *bench {
	b := &bench{t: t, dir: dir, boot: bootID, now: time.Minute, whyNotJoined: "it has no kubeconfig"}
	for _, dir := range []string{"/run", "/etc"} {
		must(t, os.Mkdir(b.dir+dir, 0o755))
	}

	b.kubelet = activation.Unit{Definition: unitfile.Definition{Name: activation.DefaultUnit, Load: "loaded"}, State: unitfile.State{Active: "active", Sub: "running"}}
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

	s, err := generation.Open(b.t.Context(), generation.StoreConfig{
		Root: b.dir, Dir: b.dir + "/state", BootID: b.boot, Mono: func() int64 { return b.now.Microseconds() },
		Fault: func(op, path string) error {
			if b.onWrite != nil {
				return b.onWrite(op, path)
			}

			return nil
		},
	})
	must(b.t, err)

	rep, err := report.New(report.ReporterConfig{
		Dir: b.dir + "/run", BootID: b.boot, Now: b.Now, Redact: func(s string) string { return s }, Continue: again,
		Log: func(_ int, line string, _ map[string]string) { fmt.Fprintln(&b.log, line) },
	})
	must(b.t, err)

	b.Run = Run{
		Store: s, Report: rep,
		Machine: &activation.StateMachine{
			Node: b, Store: s, BootID: b.boot, StateDir: b.dir + "/state",
			Gate: activation.Gate{Dir: b.dir + "/run", BootID: b.boot},
		},
	}
}

func (b *bench) Foreign(gen int) string {
	if gen > b.lastForeign {
		return ""
	}

	return "machine-id a, here b"
}

func (b *bench) OtherMachine(o kubelet.NodeObject) string {
	if !b.isRival {
		return ""
	}

	return o.Name + " is another machine"
}

func (b *bench) WhyNotJoined() string { return b.whyNotJoined }

func (b *bench) Waits(string, map[string][]byte) bool { return true }

func (b *bench) AskBinary(context.Context, string) string { return "" }

func (b *bench) Note(report.Event) {}

func (b *bench) Extend(time.Duration) {}

func (b *bench) Redact(text string) string { return text }

// anyNode is a node without secrets.
type anyNode struct{}

func (anyNode) Recording(*evaluate.Plan) *tape.Recording { return &tape.Recording{} }

func (anyNode) Secret(string) ([]byte, error) { return nil, fs.ErrNotExist }

func (anyNode) Hidden(string) *generation.FileState { return nil }

func (b *bench) options(p *evaluate.Plan) ProposalInput {
	b.observe(p)

	return ProposalInput{
		Store:    b.Store,
		Plan:     p,
		Node:     anyNode{},
		Redactor: secret.NewRedactor(),
		NodeName: "n1",
		Healthz:  "http://127.0.0.1:10248",
		Machine:  machineid.Hashes{ID: "sha256:x"},
	}
}

// observe compares the file of a plan that the kubelet does not read with the disk. A plan fails where it cannot.
func (b *bench) observe(p *evaluate.Plan) {
	f, isPlanned := p.Node.FindFile("/etc/b")
	if !isPlanned {
		return
	}
	now, _, err := b.Store.Observe(f.Path)
	switch {
	case errors.Is(err, unix.ELOOP), now.Kind == generation.Dir:
		p.Complete = false
		p.Diagnostics = hcl.Diagnostics{origin.Error(fault.CannotWrite, hcl.Range{}, "Cannot read "+f.Path, "Why: so.")}
		return
	case err != nil:
		return
	}
	p.Changes = append(p.Changes, evaluate.FileChange{File: f, Old: tape.TargetAns{
		Exists: now.Kind != generation.Absent, SHA256: now.SHA256, Mode: now.Mode, UID: now.UID, GID: now.GID,
	}})
}

// play is a run to its end.
func (b *bench) play(ctx context.Context) Result {
	for isEnded := b.Begin(ctx); !isEnded; {
		if b.onPlan != nil {
			b.onPlan()
		}
		isEnded = b.Apply(ctx, b.options(b.plan))
	}

	return b.Result
}

// do runs a plan with this hash, in a process of its own, and finishes the report.
func (b *bench) do(ctx context.Context, p *evaluate.Plan) (Result, *report.Status) {
	b.t.Helper()
	b.open(true)
	b.plan = p
	res := b.play(ctx)

	return res, b.finish(res)
}

func (b *bench) finish(res Result) *report.Status {
	b.t.Helper()

	status := b.Report.Finish(res.Code, res.Summary)
	must(b.t, b.Report.WriteStatus())

	return &status
}

// complete returns a plan with the kubelet's configuration and a file of another program, /etc/b. The content of both is
// the plan's hash.
func complete(hash string) *evaluate.Plan {
	text, err := secret.TextOf(cty.StringVal(hash))
	if err != nil {
		panic(err)
	}

	return &evaluate.Plan{
		Hash:      hash,
		Complete:  true,
		Installed: evaluate.Installed{Kubelet: tape.KubeletAns{Joined: true}},
		Node: desired.Node{Files: []desired.File{
			{Path: "/etc/a", Kind: desired.Regular, Purpose: "kubelet-config", Text: text, Mode: 0o644},
			{Path: "/etc/b", Kind: desired.Regular, Purpose: "file", Text: text, Mode: 0o644},
		}},
	}
}

// unreachable is the plan of a node that has joined and may go on without the cluster.
func unreachable() *evaluate.Plan {
	return &evaluate.Plan{
		OnCluster:   "last-good",
		Installed:   evaluate.Installed{Kubelet: tape.KubeletAns{Joined: true}},
		Diagnostics: hcl.Diagnostics{origin.Error(fault.ClusterUnreachable, hcl.Range{}, "no answer", "Why: so.")},
	}
}

func (b *bench) Look(_ context.Context, unit string) (activation.Unit, error) {
	if b.hasRun && unit == activation.BootUnit {
		return activation.Unit{Definition: unitfile.Definition{Name: unit, Load: "loaded"}, State: unitfile.State{Active: "active", Sub: "exited"}}, nil
	}

	return b.kubelet, nil
}
func (b *bench) MayWait(context.Context, string) (bool, error) { return !b.isBoot, nil }
func (b *bench) Kubeconfig(ctx context.Context, _ string) error {
	if b.unjoined {
		return errors.New("it has no kubeconfig")
	}

	return ctx.Err()
}
func (b *bench) Log(context.Context, string, time.Duration) ([]string, error) { return nil, nil }
func (b *bench) ChangedAgo([]string) (time.Duration, bool)                    { return 0, false }
func (b *bench) Expired() string                                              { return "" }
func (b *bench) Now() time.Time                                               { return time.Unix(0, 0).Add(b.now + b.jump) }
func (b *bench) Monotonic() time.Duration                                     { return b.now }
func (b *bench) Files(ctx context.Context, want map[string]string) error {
	for path, sum := range want {
		text, err := nodefile.ReadFile(b.dir+path, nodefile.MaxContent)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is gone", path)
		case err != nil:
			return unknownError{fmt.Errorf("%s cannot be read: %w", path, err)}
		case nodefile.Checksum(text) != sum:
			return fmt.Errorf("%s is not as prelet wrote it: another program changed it", path)
		}
	}

	return ctx.Err()
}

func (b *bench) Mounts(context.Context, []string) ([]activation.Mount, error) {
	b.looked++
	if b.onLook != nil {
		b.onLook()
	}

	return slices.Clone(b.mounts), nil
}

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

func (b *bench) Sleep(ctx context.Context, d time.Duration) error {
	b.now += d

	return ctx.Err()
}

func (b *bench) Healthz(context.Context, string) error {
	if b.onWatch != nil {
		b.onWatch()
	}
	if text, _ := nodefile.ReadFile(b.dir+"/etc/a", nodefile.Max); b.sick != "" && strings.Contains(b.sick, string(text)) {
		return errors.New("500 Internal Server Error")
	}

	return nil
}

type unknownError struct{ error }

func (unknownError) Unknown() bool { return true }

func (b *bench) NodeObject(_ context.Context, name string) (kubelet.NodeObject, error) {
	if b.away {
		return kubelet.NodeObject{}, unknownError{errors.New("the API server does not answer")}
	}

	return kubelet.NodeObject{Name: name, Age: time.Hour}, nil
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
	b.plan = complete("one")
	b.onPlan = func() {
		planned++
		if b.looked < 3 {
			t.Errorf("plan %d was made after %d looks at the mounts, want it after the mount came", planned, b.looked)
		}
	}

	res := b.play(t.Context())
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

// TestRetryKilledAnywhere kills a run with Retry of a held plan, whose files somebody has put in place already,
// before each write of the store: a plan that is recorded is not held.
func TestRetryKilledAnywhere(t *testing.T) {
	type killed struct{}

	for at, over := 1, false; !over; at++ {
		b := newBench(t)
		b.do(t.Context(), complete("one"))
		b.open(true)
		two := complete("two")
		must(t, errors.Join(
			b.Store.Hold(PlanID(two), "it was unhealthy"),
			os.WriteFile(b.dir+"/etc/a", []byte("two"), 0o644),
		))

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
			b.play(t.Context())
			over = true
		}()

		b.onWrite = nil
		b.open(true)
		cur, err := b.Store.Current()
		must(t, err)
		if why, held := b.Store.Held(PlanID(two)); held && cur.PlanID == PlanID(two) {
			t.Errorf("killed before write %d: generation %d is recorded and its plan held (%s), want one of them",
				at, cur.Gen, why)
		}
		if over && cur.PlanID != PlanID(two) {
			t.Errorf("the run to its end: got generation %d of %s in place, want it of %s",
				cur.Gen, cur.PlanID, PlanID(two))
		}
	}
}

// TestReportWithoutSetID reports files that come back without setuid as a deviation.
func TestReportWithoutSetID(t *testing.T) {
	b := newBench(t)
	const why = "/opt/x is restored with mode 0755 instead of 4755"
	b.noteComparison(&generation.Comparison{WithoutSetID: []string{why}})

	status := b.finish(Result{})
	want := []fault.Reason{{Code: fault.CannotWrite, Summary: why}}
	if !slices.Equal(status.Degraded, want) {
		t.Errorf("got %+v, want it degraded for %+v", status.Degraded, want)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
