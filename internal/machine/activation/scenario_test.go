package activation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/testing/script"
)

// node is a machine: a real store on a disk that survives reboots, the fake systemd, a kubelet that behaves as its
// configuration describes, and prelet's units in the order in which systemd runs them.
type node struct {
	t       testing.TB
	clk     *sim
	systemd *fakeSystemd
	disk    string // root of managed files and state
	run     string // /run/prelet of this boot
	boot    string
	boots   int

	store      *generation.Store // of the running process
	locked     bool
	events     []string
	rows       []row            // nil: the table
	seen       func(row)        // called with each row
	unitFiles  bool             // a unit file is among what changes
	step       func(step, bool) // called before and after each step
	apiserver  bool             // the API server answers
	foreign    func(pid uint32) error
	sources    map[string]string
	labels     map[string]string // of the Node object
	taints     []kubelet.Taint
	object     kubelet.NodeObject // what else is of the Node
	patches    int
	configz    func() []string
	serving    error
	expired    string   // what Expired returns
	startLog   []string // the first lines of each kubelet process
	shape      []string // JSON over the plan
	log        []string // log of the kubelet
	logErr     error
	driven     bool          // the runtime has another cgroup driver now
	fixedSince time.Duration // since when its pods start; 0: never
	logged     time.Duration
	conduct    string             // instead of the configuration: how the kubelet behaves
	onCommit   func()             // called right after each commit
	onNote     func(report.Event) // called with each event
	reports    func() string      // the id of the machine whose kubelet has updated the Node last
	onOpen     func()             // called when the gate has been opened
	joined     bool               // by its files
	off        bool               // prelet=off in this boot
	held       string             // why the site holds the kubelet; "": it does not
	ntp        string             // content of a file that another unit reads; "" there is none
	ntpAction  string             // what follows its change
	storeFails func(method string) error

	*script.Player
	out         Outcome  // of the last process of prelet
	signals     []func() // end the runs, the innermost last
	isSignalled bool     // before the next run
	since       snapshot

	timeout time.Duration
}

const (
	configPath = "/etc/kubernetes/kubelet.conf.d/90.conf"
	flagsPath  = "/etc/default/kubelet"
	ntpPath    = "/etc/ntp.conf" // the kubelet does not read it
	ntpUnit    = "chrony.service"
)

func newNode(t testing.TB) *node {
	n := &node{t: t, disk: inMemory(t), apiserver: true, timeout: 2 * time.Minute, labels: map[string]string{}}
	for _, dir := range []string{"/etc/kubernetes/kubelet.conf.d", "/etc/default"} {
		must(t, os.MkdirAll(n.disk+dir, 0o755))
	}

	n.Player = n.newPlayer()
	n.reboot()

	return n
}

// inMemory returns a folder on a tmpfs if there is one: fsync is fast there.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "activation")
	if err != nil {
		return t.TempDir()
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	return dir
}

// reboot is a power cycle: the run folder is empty, no process runs, and the kubelet's start waits for prelet.service.
func (n *node) reboot() {
	n.boots++
	n.since.starts, n.since.reloads = 0, 0
	n.off = false
	n.boot = fmt.Sprintf("%032x", n.boots)
	n.run = inMemory(n.t)
	n.clk = &sim{now: 5 * time.Second}
	n.systemd = &fakeSystemd{
		t:          n.t,
		clk:        n.clk,
		gate:       gatePath(n.run),
		settings:   settings{RestartSec: 10 * time.Second},
		startLimit: 90 * time.Second,
	}
	n.systemd.unit = kubeletUnit(n.run)
	n.systemd.other = Unit{
		Definition: unitfile.Definition{Name: ntpUnit, Load: "loaded"},
		State: unitfile.State{
			Active:  "active",
			Sub:     "running",
			Result:  "success",
			MainPID: 7,
			Since:   time.Second,
			Started: time.Second,
		},
	}
	n.systemd.otherEnds = n.ntpEnds
	n.systemd.skips = func() bool {
		return n.systemd.SkipsWith != "" && strings.Contains(n.read(configPath), n.systemd.SkipsWith)
	}
	n.Set("GATE", gatePath(n.run))
	n.systemd.behave = n.behave
	n.systemd.lockHeld = func() bool { return n.locked }
	n.systemd.onStart = n.checkWhole
	n.systemd.ordered, n.systemd.insidePrelet = true, true
	n.systemd.enqueue("start")
	n.clk.advance(10 * time.Millisecond)
}

// checkWhole checks at each start of the kubelet that both files are of the generation that the gate names.
func (n *node) checkWhole() {
	if n.systemd.reloads < n.systemd.unread {
		n.t.Errorf("%s: the kubelet starts, and systemd has not read its unit file; want a reload first", n.clk.now)
	}

	config, flags := n.read(configPath), n.read(flagsPath)
	if config != flags {
		n.t.Errorf("%s: the kubelet starts on a mixture: %s is %q, %s is %q; want one generation",
			n.clk.now, configPath, config, flagsPath, flags)
	}
}

func (n *node) read(path string) string {
	text, _ := os.ReadFile(n.disk + path)
	return string(text)
}

// behave reads the configuration as words: dies=3s, result=watchdog, ready=never, healthz=bad.
func (n *node) behave() conduct {
	c := conduct{ready: 50 * time.Millisecond, healthz: true}

	for _, word := range strings.Fields(cmp.Or(n.conduct, n.read(configPath))) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "dies":
			c.dies, _ = time.ParseDuration(value)
			c.ready = 0
		case "result":
			c.result = value
		case "ready":
			c.ready = -1
		case "healthz":
			c.healthz = false
		case "pods":
			c.pods = value
		}
	}

	return c
}

type unknownError struct{ error }

func (unknownError) Unknown() bool { return true }

func (n *node) Healthz(context.Context, string) error {
	if n.systemd.unit.Active != "active" || !n.systemd.conduct.healthz {
		return errors.New("500 Internal Server Error")
	}

	return nil
}
func (n *node) Kubeconfig(context.Context, string) error { return nil }
func (n *node) Expired() string                          { return n.expired }
func (n *node) Flags(_ context.Context, pid uint32, _ []string) error {
	if n.foreign != nil {
		return n.foreign(pid)
	}

	return nil
}
func (n *node) ChangedAgo([]string) (time.Duration, bool) { return 0, false }

func (n *node) Files(_ context.Context, want map[string]string) error {
	for path, sum := range want {
		if got := sha256.Sum256([]byte(n.read(path))); hex.EncodeToString(got[:]) != sum {
			return fmt.Errorf("%s was changed", path)
		}
	}

	return nil
}
func (n *node) NodeObject(_ context.Context, name string) (kubelet.NodeObject, error) {
	if !n.apiserver {
		return kubelet.NodeObject{}, unknownError{errors.New("the apiserver does not answer")}
	}

	out := n.object
	out.Name, out.Labels, out.Taints = name, n.labels, n.taints
	if n.reports != nil {
		out.MachineID = n.reports()
	}

	return out, nil
}

type refusedError struct{ error }

func (refusedError) Refused() bool { return true }

// Patch behaves as the API server with NodeRestriction, which refuses a patch as a whole. The run patches annotations
// and conditions, after its end.
func (n *node) Patch(_ context.Context, _, _ string, change kubelet.NodeChange) error {
	changes, isLabels := change.(kubelet.LabelChanges)
	if !isLabels {
		n.t.Errorf("patch of %T; want one of labels", change)
	}
	if n.locked {
		n.t.Error("a patch with the lock held")
	}

	n.patches++
	next := maps.Clone(n.labels)

	for _, c := range changes {
		switch {
		case strings.HasPrefix(c.Key, "node-restriction.kubernetes.io/"):
			return refusedError{errors.New("is not allowed to modify labels: " + c.Key)}
		case c.Remove && next[c.Key] != c.Value:
			return refusedError{errors.New("testing value " + c.Key + " failed")}
		case c.Remove:
			delete(next, c.Key)
		default:
			next[c.Key] = c.Value
		}
	}

	n.labels = next

	return nil
}

func (n *node) Configz(_ context.Context, c kubelet.Configz) ([]string, error) {
	if n.configz == nil {
		return nil, unknownError{errors.New("credential " + c.Credential + " is not here")}
	}

	return n.configz(), nil
}

func (n *node) Serving(context.Context, string) error { return n.serving }

func (n *node) Log(_ context.Context, _ string, since time.Duration) ([]string, error) {
	n.logged = since
	return append(slices.Clone(n.log), n.podLog(since)...), n.logErr
}

func (n *node) StartLog(context.Context, string, uint32) ([]string, error) {
	return n.startLog, n.logErr
}

// lockedStore records whether the lock is held, so that the fake systemd can check it.
type lockedStore struct {
	*generation.Store
	n *node
}

func (s lockedStore) Unlock() error { s.n.locked = false; return s.Store.Unlock() }
func (s lockedStore) Relock(ctx context.Context) error {
	_, err := unlessItFails(s, "Relock", func() (any, error) {
		err := s.Store.Relock(ctx)
		s.n.locked = err == nil

		return nil, err
	})

	return err
}
func (s lockedStore) Journal() (*generation.Journal, error) {
	return unlessItFails(s, "Journal", s.Store.Journal)
}
func (s lockedStore) Current() (*generation.Info, error) {
	return unlessItFails(s, "Current", s.Store.Current)
}
func (s lockedStore) List() ([]generation.Info, error) { return unlessItFails(s, "List", s.Store.List) }
func (s lockedStore) Blob(gen int, name string) ([]byte, error) {
	return unlessItFails(s, "Blob", func() ([]byte, error) { return s.Store.Blob(gen, name) })
}

// unlessItFails calls a method, unless the test lets it fail.
func unlessItFails[T any](s lockedStore, method string, do func() (T, error)) (none T, err error) {
	if s.n.storeFails != nil {
		err = s.n.storeFails(method)
	}
	if err != nil {
		return none, err
	}

	return do()
}

// process is one run of prelet: open, do, close.
func (n *node) process(do func(m *StateMachine) (Outcome, error)) (Outcome, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 100*time.Millisecond)
	defer cancel()

	store, err := generation.Open(ctx, generation.StoreConfig{
		Root: n.disk, Dir: filepath.Join(n.disk, "var/lib/prelet"), Now: n.clk.Now, BootID: n.boot,
		Mono: func() int64 { return n.clk.now.Microseconds() },
	})
	if err != nil {
		return Outcome{}, err
	}

	wasStore, wasLocked := n.store, n.locked

	n.store, n.locked = store, true
	defer func() { store.Close(); n.store, n.locked = wasStore, wasLocked }()

	return do(&StateMachine{
		Node: n.asNode(), Store: lockedStore{store, n}, BootID: n.boot,
		Gate: Gate{Dir: n.run, BootID: n.boot}, StateDir: filepath.Join(n.disk, "var/lib/prelet"),
		rows: n.rows, hook: n.step, onRow: n.seen,
	})
}

// nodeOfTest is a node as a state machine sees it.
type nodeOfTest struct {
	Units
	Clock
	Probe
	note     func(report.Event) // nil: nothing takes events
	foreign  string             // why all generations belong to another machine
	joined   bool
	compares bool   // its Node with this machine
	words    string // of the kubelet's binary
}

func (n *node) asNode() *nodeOfTest {
	return &nodeOfTest{
		Units: n.systemd, Clock: n.clk, Probe: n, note: n.note, joined: n.joined, compares: n.reports != nil,
	}
}

func (n *nodeOfTest) Foreign(int) string { return n.foreign }

func (n *nodeOfTest) OtherMachine(o kubelet.NodeObject) string {
	if !n.compares || o.MachineID == "" {
		return ""
	}

	return o.Name + " is another machine"
}

func (n *nodeOfTest) WhyNotJoined() string {
	if n.joined {
		return ""
	}

	return "it has no kubeconfig"
}

func (n *nodeOfTest) Waits(string, map[string][]byte) bool { return true }

func (n *nodeOfTest) AskBinary(context.Context, string) string { return n.words }

func (n *nodeOfTest) Note(e report.Event) {
	if n.note != nil {
		n.note(e)
	}
}

func (n *nodeOfTest) Extend(time.Duration) {}

func (n *nodeOfTest) Redact(text string) string { return text }

// note records the events.
func (n *node) note(e report.Event) {
	n.events = append(n.events, e.Stage+" "+e.State)
	if n.onOpen != nil && strings.HasPrefix(e.Summary, "open on") {
		n.onOpen()
	}
	if n.onNote != nil {
		n.onNote(e)
	}
}

// killed is the panic that ends a process, as SIGKILL would.
type killed struct{ at report.Event }

// maybeKilled runs prelet and returns at which event it was killed, or "".
func (n *node) maybeKilled(run func()) (at string) {
	defer func() {
		if r := recover(); r != nil {
			k, ok := r.(killed)
			if !ok {
				panic(r)
			}

			at = k.at.Stage + " " + k.at.State
		}
	}()

	run()

	return ""
}

func (n *node) spec(config string) Spec {
	sum := sha256.Sum256([]byte(config))

	p := Spec{
		Start: Start{
			Unit:          DefaultUnit,
			TimeoutMillis: n.timeout.Milliseconds(),
			Rollback:      true,
			UnitFiles:     n.unitFiles,
		},
		KubeletState: KubeletState{
			Sources:    n.sources,
			Healthz:    "http://127.0.0.1:10248/healthz",
			Kubeconfig: "/etc/kubernetes/kubelet.conf",
			Flags:      []string{"--node-labels=a=b"},
			Node:       "n1",
			Files:      map[string]string{configPath: hex.EncodeToString(sum[:]), flagsPath: hex.EncodeToString(sum[:])},
		},
	}
	if n.ntp != "" {
		p.Others = []string{ntpPath}
		p.Units = []UnitSpec{{
			Unit: ntpUnit, Action: n.ntpAction, TimeoutMillis: 60_000, SettleMillis: 2_000, Files: []string{ntpPath},
		}}
	}
	for _, text := range n.shape {
		n.mustSucceed(json.Unmarshal([]byte(text), &p), text)
	}
	for _, path := range p.Retire { // it may be gone
		delete(p.Files, path)
	}

	return p
}

// runSite is `prelet run` on a site that renders config into both files.
func (n *node) runSite(ctx context.Context, config string) (Outcome, error) {
	return n.process(func(m *StateMachine) (Outcome, error) {
		if _, err := m.Enter(ctx, Entry{On: OnFinish}); err != nil {
			return Outcome{}, err
		}

		if _, held := n.store.Held(config + n.ntp); held {
			return m.Enter(ctx, Entry{On: OnResume})
		}

		blob, err := n.spec(config).Encode()
		if err != nil {
			return Outcome{}, err
		}

		target := func(path string) generation.Target {
			return generation.Target{
				Path:    path,
				Kind:    generation.File,
				Content: []byte(config),
				Mode:    0o644,
				UID:     generation.Keep,
				GID:     generation.Keep,
				Mount:   "/",
			}
		}

		targets := []generation.Target{target(configPath), target(flagsPath)}
		if n.ntp != "" {
			ntp := target(ntpPath)
			ntp.Content = []byte(n.ntp)
			targets = append(targets, ntp)
		}

		proposal := generation.Proposal{
			PlanID:  config + n.ntp,
			Targets: targets,
			Blobs:   map[string][]byte{SpecBlob: blob},
		}

		compared, err := n.store.Compare(proposal)
		switch {
		case err != nil:
			return Outcome{}, err
		case compared.ChangesNothing(proposal):
			return m.Enter(ctx, Entry{On: OnUnchanged, Spec: n.spec(config)})
		}

		change := Change{Proposal: proposal, Compared: compared, Spec: n.spec(config), Reload: n.unitFiles}
		change.Committed = func(int) {
			if n.onCommit != nil {
				n.onCommit()
			}
		}
		out, err := m.Enter(ctx, Entry{On: OnChange, Change: &change})
		if out.Committed && promisesUnchanged(err) && err != nil {
			n.t.Errorf("after the commit: code %s promises that nothing was changed: %v; want another code",
				fault.CodeOf(err), err)
		}

		return out, err
	})
}

// bootWith is a whole boot on a site: prelet.service, the kubelet, prelet-verify.service.
func (n *node) bootWith(config string) (run, verify Outcome) {
	n.t.Helper()
	run, err := n.runSite(n.t.Context(), config)
	n.mustSucceed(err, "prelet.service")
	n.finishPrelet()

	return run, n.verify()
}

// finishPrelet ends prelet.service and lets the kubelet come up.
func (n *node) finishPrelet() {
	n.systemd.endPrelet()
	n.systemd.insidePrelet = false
	n.clk.advance(100 * time.Millisecond)
}

func (n *node) verify() Outcome {
	n.t.Helper()
	out, err := n.process(func(m *StateMachine) (Outcome, error) { return m.Enter(n.t.Context(), Entry{On: OnVerify}) })
	n.mustSucceed(err, "prelet-verify.service")

	return out
}

func (n *node) mustSucceed(err error, what string) {
	n.t.Helper()

	if err != nil {
		n.t.Fatalf("%s: %v; want no error", what, err)
	}
}

func (n *node) codeOf(err error) fault.Code {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Code
	}

	if err != nil {
		n.t.Fatalf("an error without a code: %v; want a code", err)
	}

	return ""
}

func (n *node) journal() *generation.Journal {
	n.t.Helper()

	var j *generation.Journal

	_, err := n.process(func(m *StateMachine) (_ Outcome, err error) { j, err = m.Store.Journal(); return })
	n.mustSucceed(err, "journal")

	return j
}

func (n *node) readGate() string {
	text, _ := os.ReadFile(gatePath(n.run))
	return strings.TrimSpace(string(text))
}

// generations returns GEN=STATUS of each.
func (n *node) generations() (all string) {
	n.t.Helper()
	_, err := n.process(func(m *StateMachine) (Outcome, error) {
		list, err := m.Store.List()
		for _, info := range list {
			all += fmt.Sprintf("%d=%s ", info.Gen, info.Status)
		}

		return Outcome{}, err
	})
	n.mustSucceed(err, "list")

	return strings.TrimSpace(all)
}

// ntpEnds is the other unit, which fails on a file that says "broken".
func (n *node) ntpEnds() string {
	if n.read(ntpPath) == "broken" && !n.systemd.Healthy {
		return "failed"
	}

	return ""
}

// Log lines of kubelet v1.36.3 about a pod that containerd 1.6 cannot start: with a cgroup driver that is not the
// runtime's, and with an image whose program cannot be executed.
const (
	otherDriver = `E1120 16:35:14.243391 93 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/besteffort/pod1/2\" instead: unknown"`
	noProgram   = `E1120 16:35:14.243391 93 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = failed to start sandbox container task \"x\": OCI runtime start failed: cannot start a container that has stopped: unknown"`
)

// podLog returns the log of the running process: two seconds after its start, and at each try after that.
func (n *node) podLog(since time.Duration) (lines []string) {
	if n.systemd.unit.Active != "active" || n.systemd.conduct.pods == "" {
		return nil
	}

	words := map[bool]string{true: otherDriver, false: noProgram}[n.driven || n.systemd.conduct.pods == "driver"]
	for at := n.systemd.unit.Started + 2*time.Second; at <= n.clk.now && (n.fixedSince == 0 || at < n.fixedSince); at += 12 * time.Second {
		if at < since {
			continue
		}

		lines = append(lines, words)
	}

	return lines
}

// whyHeld returns why a plan is held, or "".
func (n *node) whyHeld(plan string) (why string) {
	n.t.Helper()
	_, err := n.process(func(*StateMachine) (Outcome, error) { why, _ = n.store.Held(plan); return Outcome{}, nil })
	n.mustSucceed(err, "held")

	return why
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
