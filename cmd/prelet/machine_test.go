package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/kubeletstate"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/demo/nodestatus"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/script"
)

// testMachine is a node as the commands see one: a scratch root that survives reboots, a run folder that does not, a real
// API server on loopback, and a systemd with one kubelet that behaves as internal/machine/activation's tests pin it down.
type testMachine struct {
	t      testing.TB
	root   string
	run    string
	boots  int
	server *demo.Server
	site   string
	creds  string

	*units
	sick       func() error          // what /healthz says
	status     *bytes.Buffer         // STATUS= lines
	extend     []time.Duration       // EXTEND_TIMEOUT_USEC
	extending  sync.Mutex            // of extend
	slept      func(context.Context) // once, at the next sleep
	sleeping   func()                // at each sleep
	planned    func()                // after each plan of a run, before its commit: where a recording's header is made
	args       []string              // of the kubelet's command line
	changed    time.Duration         // when the newest managed file was changed; 0: that cannot be read
	lacks      func(pid uint32, flags []string) error
	jitter     float64
	object     sync.Mutex                  // of the Node: conditions are patched in parallel with a look at it
	nodeID     func(m *testMachine) string // the machine id in the Node
	kubeletLog []string

	// Of the Node object.
	labels      map[string]string
	taints      []kubelet.Taint
	annotations map[string]string
	conditions  []condition.Condition
	isCordoned  bool
	pods        []string            // that a drain evicts
	sent        map[string][]string // patches of taints, conditions, annotations and labels, in the words of kubectl
	fails       map[string]error    // of each such patch, and of each get; why there is no serving certificate

	configz []string     // how /configz differs from the plan
	expired string       // what Expired returns, whatever the certificate
	log     bytes.Buffer // journal entries, one JSON document a line
	console []string     // lines of units on the machine's console
}

// units is systemd with virtual time.
type units struct {
	now     time.Duration
	wrong   time.Duration // by which the wall clock is wrong
	gate    string
	inside  bool // we are prelet.service at boot
	gone    bool // D-Bus does not answer
	kubelet activation.Unit
	self    activation.Unit // prelet.service
	starts  []string        // what the gate said at each start of the kubelet
	onStart func()
	reloads int
	restart bool     // the job of prelet.service is a restart
	acts    []string // what was requested for other units
	apply   func()   // prelet-apply.service's body
	job     string   // how its start ends; empty: done
	applyIs string   // its ActiveState
	mounts  []activation.Mount
	other   activation.Unit // one of the site's; no name: there is none
	act     func(verb string) (string, error)

	onReload func()
	noOrder  bool            // systemd does not answer which unit runs this process
	verifier activation.Unit // prelet-verify.service; with Load masked or not-found it does not start
	version  string
}

func (u *units) Close() {}

func (u *units) Look(_ context.Context, name string) (activation.Unit, error) {
	switch {
	case u.gone:
		return activation.Unit{}, errors.New("connection refused")
	case name == machine.VerifyUnit && u.verifier.Load == "masked":
		return u.verifier, nil
	case name == u.kubelet.Name:
		return u.kubelet, nil
	case name == machine.ApplyUnit && u.apply != nil:
		return activation.Unit{Definition: unitfile.Definition{Name: name, Load: "loaded"}, State: unitfile.State{Active: u.applyIs}}, nil
	case name == machine.BootUnit, name == machine.ApplyUnit:
		return u.self, nil
	case name == u.other.Name:
		return u.other, nil
	}
	return activation.Unit{Definition: unitfile.Definition{Name: name, Load: "not-found"}}, nil
}

func (u *units) Mounts(context.Context, []string) ([]activation.Mount, error) { return u.mounts, nil }
func (u *units) MayWait(context.Context, string) (bool, error) {
	if u.gone || u.noOrder {
		return false, errors.New("connection refused")
	}
	return !u.inside, nil
}

func (u *units) Reload(context.Context) error {
	u.reloads++
	u.kubelet.Unread = false
	if u.onReload != nil {
		u.onReload()
	}
	return nil
}

func (u *units) Version(context.Context) string { return u.version }

func (u *units) IsRestarting(context.Context, string) (bool, error) { return u.restart, nil }

func (u *units) Start(_ context.Context, name string, _ time.Duration) (string, error) {
	u.acts = append(u.acts, "start "+name)
	if name == machine.VerifyUnit && u.verifier.Load == "not-found" {
		return "", errors.New("Unit prelet-verify.service not found.")
	}
	if name == machine.ApplyUnit && u.apply != nil {
		u.apply()
		return cmp.Or(u.job, "done"), nil
	}
	return "failed", nil
}

func (u *units) Stop(_ context.Context, _ string, _ time.Duration) (string, error) {
	if u.gone {
		return "unanswered", errors.New("connection refused")
	}
	if u.kubelet.NoStop {
		return "", errors.New("Operation refused, unit kubelet.service may be requested by dependency only")
	}
	u.kubelet.Active, u.kubelet.Sub, u.kubelet.MainPID, u.kubelet.Job, u.kubelet.Result = "inactive", "dead", 0, 0, "success"
	return "done", nil
}

func (u *units) Act(_ context.Context, verb, name string, wait time.Duration) (string, error) {
	if u.act != nil && name == u.other.Name {
		return u.act(verb)
	}
	if name != u.kubelet.Name {
		return "done", nil
	}

	if u.kubelet.NoStart {
		return "", errors.New("Operation refused, unit kubelet.service may be requested by dependency only")
	}
	u.kubelet.Job = 7
	if wait == 0 {
		return "queued", nil
	}
	if verb != "start" || u.kubelet.Active != "active" {
		u.start()
	}
	return "done", nil
}

// Describe writes a drop-in, which systemd takes for unread when it is new: the unit has one that is behind it.
func (u *units) Describe(_ context.Context, name, text string) error {
	if u.gone {
		return errors.New("connection refused")
	}
	u.kubelet.Description = text
	folder := filepath.Join(filepath.Dir(filepath.Dir(u.gate)), "systemd/system.control", name+".d")
	if _, err := os.Lstat(folder); err != nil {
		u.kubelet.Unread = true
	}
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "50-Description.conf"), []byte("[Unit]\nDescription="+text+"\n"), 0o644)
	}
	return err
}

func (u *units) CreateTmpfiles(context.Context, []string, time.Duration) (string, error) {
	return "done", nil
}

// start is systemd's: EnvironmentFile= is read, then the process begins.
func (u *units) start() {
	u.kubelet.Job = 0
	b, err := os.ReadFile(u.gate)
	if err != nil {
		u.kubelet.Active, u.kubelet.Sub, u.kubelet.Result, u.kubelet.MainPID = "activating", "auto-restart", "resources", 0
		return
	}
	u.now += 50 * time.Millisecond
	u.starts = append(u.starts, strings.TrimSpace(string(b)))
	u.kubelet.Active, u.kubelet.Sub, u.kubelet.Result, u.kubelet.Started = "active", "running", "success", u.now
	u.kubelet.MainPID++
	if u.onStart != nil {
		u.onStart()
	}
}

func (u *units) Now() time.Time           { return time.Now().Add(u.wrong) } // certificates are real
func (u *units) Monotonic() time.Duration { return u.now }

// goodRetry is how long a site waits for a server that answers well, on a busy machine.
const goodRetry = `"1m"`

const nodeSite = `
cluster {
  servers        = ["SERVER"]
  ca_cert_hashes = ["PIN"]
  token          = credential("bootstrap-token")
  retry          = ` + goodRetry + `
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`

const clusterConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: " +
	"cluster.local\n"

func newMachine(t *testing.T) *testMachine {
	t.Helper()
	return newMachineIn(t, t.TempDir())
}

// newMachineIn makes a machine with its root, run folder and credentials in one folder.
func newMachineIn(t testing.TB, dir string) *testMachine {
	t.Helper()
	server := demo.Start(demo.ServerConfig{PatchStatus: nodestatus.Patch})
	t.Cleanup(server.Close)
	server.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": clusterConfig})
	m := &testMachine{
		t:      t,
		root:   filepath.Join(dir, "root"),
		run:    filepath.Join(dir, "run"),
		creds:  filepath.Join(dir, "credentials"),
		server: server,
		units:  &units{},
		jitter: 0.5,
		labels: map[string]string{"example.com/pool": "a"},

		annotations: map[string]string{}, sent: map[string][]string{}, fails: map[string]error{},
	}
	m.site = strings.NewReplacer("SERVER", server.URL, "PIN", server.CAHash()).Replace(nodeSite)
	m.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	m.put("/etc/os-release", "ID=debian\n")
	m.put("/etc/prelet/site.hcl", m.site)
	m.put("/proc/cmdline", "quiet\n")
	noError(t, os.MkdirAll(m.root+"/var/lib", 0o755))
	noError(t, os.Mkdir(m.creds, 0o700))
	osfile.Write(t, m.creds+"/bootstrap-token", demo.Token+"\n", 0o400)
	m.onStart = m.join
	m.reboot()
	return m
}

// join is what a kubelet does with the bootstrap kubeconfig.
func (m *testMachine) join() {
	if m.read("/etc/kubernetes/bootstrap-kubelet.conf") == "" || m.read("/etc/kubernetes/kubelet.conf") != "" {
		return
	}
	m.put("/etc/kubernetes/kubelet.conf", string(m.server.NodeKubeconfig("n1")))
}

// reboot is a power cycle: the kubelet's start waits for prelet.service.
func (m *testMachine) reboot() {
	m.boots++
	m.emptyRun()
	m.gate = filepath.Join(m.run, "kubelet.env")
	m.now = 5 * time.Second
	m.starts, m.status = nil, &bytes.Buffer{}
	m.forgetExtensions()
	k := activation.Unit{
		Definition: unitfile.Definition{
			Name: cmp.Or(m.kubelet.Name, activation.DefaultUnit),
			Load: "loaded",
			File: "enabled",
		},
		Description: "kubelet: The Kubernetes Node Agent",
		State: unitfile.State{
			Active:  "inactive",
			Sub:     "dead",
			Result:  "success",
			Job:     3,
			MainPID: 0,
		},
	}
	k.EnvironmentFiles = append(k.EnvironmentFiles, unitfile.EnvironmentFile{Path: m.gate})
	m.kubelet = k
	m.self = activation.Unit{Definition: unitfile.Definition{Name: machine.BootUnit, Load: "loaded"}, State: unitfile.State{Active: "activating"}}
}

func (m *testMachine) put(path, text string) {
	m.t.Helper()
	osfile.Write(m.t, m.root+path, text, 0o644)
}

func (m *testMachine) read(path string) string {
	b, _ := os.ReadFile(m.root + path)
	return string(b)
}

func (m *testMachine) bootID() string { return fmt.Sprintf("%032x", m.boots) }

// Probe and clock.

func (m *testMachine) probe() kubeletstate.Probe {
	return kubeletstate.Probe{Root: m.root, Now: time.Now}
}
func (m *testMachine) Healthz(context.Context, string) error {
	if m.sick != nil {
		return m.sick()
	}
	return nil
}
func (m *testMachine) Kubeconfig(ctx context.Context, name string) error {
	return m.probe().Kubeconfig(ctx, name)
}
func (m *testMachine) Flags(_ context.Context, pid uint32, flags []string) error {
	m.args = flags
	if m.lacks != nil {
		return m.lacks(pid, flags)
	}
	return nil
}
func (m *testMachine) Files(ctx context.Context, want map[string]string) error {
	return m.probe().Files(ctx, want)
}
func (m *testMachine) Expired() string { return cmp.Or(m.expired, m.probe().Expired()) }
func (m *testMachine) ChangedAgo([]string) (time.Duration, bool) {
	return m.now - m.changed, m.changed > 0
}
func (m *testMachine) NodeObject(_ context.Context, name string) (kubelet.NodeObject, error) {
	m.object.Lock()
	defer m.object.Unlock()
	if err := m.fails["get"]; err != nil {
		return kubelet.NodeObject{}, err
	}
	return kubelet.NodeObject{
		Name: name, Labels: m.labels, Taints: m.taints, Annotations: m.annotations, Conditions: m.conditions, Age: -1,
		Ready: slices.Contains(m.conditions, condition.Condition{Type: "Ready", Status: "True"}), MachineID: m.reported(),
		Unschedulable: m.isCordoned,
	}, nil
}

// Pods implements machine.Probe.
func (m *testMachine) Pods(context.Context, string) ([]string, error) { return m.pods, m.fails["pods"] }

// reported returns the machine id in the Node, "" in most tests: then it is not known.
func (m *testMachine) reported() string {
	if m.nodeID == nil {
		return ""
	}
	return m.nodeID(m)
}

// Patch implements activation.Probe.
func (m *testMachine) Patch(_ context.Context, _, _ string, change kubelet.NodeChange) error {
	m.object.Lock()
	defer m.object.Unlock()
	send := func(kind string, patch func() string) error {
		if err := m.fails[kind]; err != nil {
			return err
		}
		m.sent[kind] = append(m.sent[kind], patch())
		return nil
	}
	switch change := change.(type) {
	case kubelet.TaintChange:
		return send("taints", func() string { return m.patchTaints(change) })
	case condition.Patch:
		return send("conditions", func() string { return m.patchConditions(change) })
	case annotation.Patch:
		return send("annotations", func() string { return m.patchAnnotations(change) })
	case kubelet.LabelChanges:
		for _, c := range change {
			m.sent["labels"] = append(m.sent["labels"], c.String())
			if m.labels[c.Key] = c.Value; c.Remove {
				delete(m.labels, c.Key)
			}
		}
	}
	return nil
}

// Event implements machine.Probe.
func (m *testMachine) Event(_ context.Context, e kubelet.Event) error {
	m.object.Lock()
	defer m.object.Unlock()
	if err := m.fails["events"]; err != nil {
		return err
	}
	m.sent["events"] = append(m.sent["events"], e.Node+" "+e.Reason+": "+e.Message)
	return nil
}

func (m *testMachine) patchTaints(change kubelet.TaintChange) string {
	m.taints = slices.DeleteFunc(m.taints, func(t kubelet.Taint) bool { return slices.Contains(change.Remove, t) })
	m.taints = append(m.taints, change.Add...)
	var owned []string
	for _, t := range change.Owned {
		owned = append(owned, t.String())
	}
	m.annotations["prelet.github.io/taints"] = strings.Join(owned, " ")
	return change.String()
}

// patchConditions returns TYPE=STATUS(REASON) of each, and TYPE- of a removed one.
func (m *testMachine) patchConditions(change condition.Patch) string {
	isOf := func(typ string) func(condition.Condition) bool {
		return func(c condition.Condition) bool { return c.Type == typ }
	}
	var words []string
	for _, c := range change.Set {
		m.conditions = append(slices.DeleteFunc(m.conditions, isOf(c.Type)), c)
		words = append(words, fmt.Sprintf("%s=%s(%s)", strings.TrimPrefix(c.Type, "example.com/"), c.Status, c.Reason))
	}
	for _, typ := range change.Remove {
		m.conditions = slices.DeleteFunc(m.conditions, isOf(typ))
		words = append(words, strings.TrimPrefix(typ, "example.com/")+"-")
	}
	return strings.Join(words, " ")
}

// patchAnnotations returns KEY=VALUE of each, and KEY- of a removed one.
func (m *testMachine) patchAnnotations(changes annotation.Patch) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		name := strings.TrimPrefix(key, "prelet.github.io/")
		if value := changes[key]; value != nil {
			m.annotations[key] = *value
			words = append(words, name+"="+*value)
		} else {
			delete(m.annotations, key)
			words = append(words, name+"-")
		}
	}
	return strings.Join(words, " ")
}

// Serving implements activation.Probe.
func (m *testMachine) Serving(context.Context, string) error { return m.fails["serving"] }

func (m *testMachine) Configz(context.Context, kubelet.Configz) ([]string, error) {
	return m.configz, nil
}
func (m *testMachine) Log(context.Context, string, time.Duration) ([]string, error) {
	return m.kubeletLog, nil
}

func (m *testMachine) StartLog(context.Context, string, uint32) ([]string, error) {
	return nil, nil // as of a kubelet that does not log its configuration
}

func (m *testMachine) Sleep(ctx context.Context, d time.Duration) error {
	if f := m.slept; f != nil {
		m.slept = nil
		f(ctx)
	}
	m.now += d
	if m.sleeping != nil {
		m.sleeping()
	}
	return context.Cause(ctx)
}

// terminated sends SIGTERM to the run that sleeps, and goes on when it has heard of it.
func (m *testMachine) terminated(ctx context.Context) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		m.t.Error(err)
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Minute):
		m.t.Error("ten minutes after SIGTERM nothing has ended")
	}
}

func (m *testMachine) Status(line string) error { m.status.WriteString(line + "\n"); return nil }

// Extend is called by a goroutine of its own, whose end a run does not wait for.
func (m *testMachine) Extend(d time.Duration) error {
	m.extending.Lock()
	defer m.extending.Unlock()

	m.extend = append(m.extend, d)
	return nil
}

func (m *testMachine) forgetExtensions() {
	m.extending.Lock()
	defer m.extending.Unlock()

	m.extend = nil
}

// longestExtension returns the longest one, 0 without any.
func (m *testMachine) longestExtension() time.Duration {
	m.extending.Lock()
	defer m.extending.Unlock()

	return slices.Max(append([]time.Duration{0}, m.extend...))
}

// ended is one command that ran to its end.
type ended struct {
	exit        int
	out, errors string
}

// lock opens the generations for writing, as another prelet would.
func (m *testMachine) lock() *generation.Store {
	m.t.Helper()
	store, err := generation.Open(m.t.Context(), generation.StoreConfig{
		Root: m.root, Dir: filepath.Join(m.root, "var/lib/prelet"), Now: m.Now, BootID: m.bootID(),
		Mono: func() int64 { return m.Monotonic().Microseconds() },
	})
	m.must(err)
	return store
}

// as runs one command line as the unit of that name, or by hand.
func (m *testMachine) as(unit string, args ...string) ended {
	m.t.Helper()
	stdout, readStdout := openOutput(m.t)
	stderr, readStderr := openOutput(m.t)
	a := &cli{stdout: stdout, stderr: stderr, getenv: func(name string) string {
		if name == "PRELET_BOOT_ID" && m.planned != nil {
			m.planned()
		}
		return map[string]string{"CREDENTIALS_DIRECTORY": m.creds, "PRELET_BOOT_ID": m.bootID()}[name]
	}, on: &machine.Host{Root: m.root, RunDir: m.run, BootID: m.bootID(), Hostname: "N1", Self: unit, Units: m, Probe: m, Clock: m, Notify: m,
		Systemd: m.units.apply != nil, Jitter: func() float64 { return m.jitter }}}
	owesVerdict := func() bool {
		_, err := os.Stat(filepath.Join(m.run, "verdict.owed"))
		return err == nil
	}
	owedInReport := owesVerdict()
	log := func(_ int, line string, fields map[string]string) {
		if fields["MESSAGE_ID"] == report.MessageEnded {
			owedInReport = owesVerdict()
		}
		fields["MESSAGE"] = line
		if err := json.NewEncoder(&m.log).Encode(fields); err != nil {
			m.t.Error(err)
		}
	}
	a.on.Journal = func() systemd.JournalLog { return log }
	if unit != "" {
		a.on.Log = log
		a.on.Console = func(_ int, line string) error { m.console = append(m.console, line); return nil }
	}
	code := a.main(args)
	got := ended{code, readStdout(), readStderr()}
	if unit == machine.BootUnit && !owedInReport && owesVerdict() {
		m.t.Errorf("%q: got a verdict that is owed after the end of the report, want it before: status --wait has ended", args)
	}
	if strings.Contains(
		got.out+got.errors+m.status.String()+m.log.String()+strings.Join(m.console, "\n"),
		demo.TokenSecret,
	) {
		m.t.Errorf("the token was printed by %q:\n%s%s%s", args, got.out, got.errors, m.status)
	}
	return got
}

// openOutput returns a file for a command's output, which another process may write, and a function that reads it.
func openOutput(t testing.TB) (f *os.File, read func() string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	noError(t, err)

	return f, func() string {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Error(err)
		}
		f.Close()

		return string(text)
	}
}

// boot is a whole one: prelet.service, the kubelet, and prelet-verify.service if its conditions hold.
func (m *testMachine) boot() (run, verify ended) {
	m.t.Helper()
	began := time.Now()
	m.inside = true
	run = m.as(machine.BootUnit, "run")
	m.inside = false
	m.now += max(time.Second, time.Since(began)) // that the processes take: the report has their real times, too
	m.units.start()
	verify.exit = -1
	if m.startsVerify() && m.units.verifier.Load != "masked" {
		verify = m.as(machine.VerifyUnit, "verify")
	}
	return run, verify
}

// startsVerify reports whether systemd would start prelet-verify.service, by the conditions of the unit that is shipped.
func (m *testMachine) startsVerify() bool {
	m.t.Helper()
	text := osfile.Read(m.t, "../../packaging/systemd/prelet-verify.service")
	for line := range strings.Lines(string(text)) {
		path, isCondition := strings.CutPrefix(strings.TrimSpace(line), "ConditionPathExists=|")
		path, isMissing := strings.CutPrefix(path, "!")
		if !isCondition {
			continue
		}
		name, isInRun := strings.CutPrefix(path, "/run/prelet/")
		if !isInRun {
			m.t.Fatalf("a condition of prelet-verify.service: got %s, want a path in /run/prelet", path)
		}
		if _, err := os.Stat(filepath.Join(m.run, name)); (err != nil) == isMissing {
			return true
		}
	}

	return false
}

// good is a node that has booted once and is well.
func goodNode(t *testing.T) *testMachine {
	t.Helper()
	m := newMachine(t)
	run, verify := m.boot()
	if run.exit != 0 || verify.exit != 0 {
		t.Fatalf("the first boot: %+v, %+v", run, verify)
	}
	return m
}

func (m *testMachine) says() *report.Status {
	m.t.Helper()
	s, err := report.Load(m.run)
	m.must(err)
	return s
}

func (m *testMachine) gateSays() string {
	b, _ := os.ReadFile(m.gate)
	return strings.TrimSpace(string(b))
}

// disk is all that is below the root. Two equal disks were not written to.
func (m *testMachine) disk() map[string]osfile.Inode {
	m.t.Helper()
	disk, err := osfile.Look(m.root)
	m.must(err)
	// The record of the last event follows each change of the node's state: without it, and the time of its folder.
	const state = "/var/lib/prelet"
	delete(disk, state+"/event")
	if folder, isThere := disk[state]; isThere {
		folder.Modified = time.Time{}
		disk[state] = folder
	}
	return disk
}

// withoutOwn leaves out of a disk what prelet has for itself, and the folders above it.
func withoutOwn(disk map[string]osfile.Inode) map[string]osfile.Inode {
	maps.DeleteFunc(disk, func(path string, _ osfile.Inode) bool {
		isAbove := slices.Contains([]string{"", "/var", "/var/lib", "/run"}, path)
		return isAbove || strings.HasPrefix(path, "/var/lib/prelet") || strings.HasPrefix(path, "/run/")
	})
	return disk
}

// entries are the journal entries whose message has this text.
func (m *testMachine) entries(text string) (out []map[string]string) {
	m.t.Helper()
	for line := range strings.Lines(m.log.String()) {
		var e map[string]string
		m.must(json.Unmarshal([]byte(line), &e))
		if strings.Contains(e["MESSAGE"], text) {
			out = append(out, e)
		}
	}
	return out
}

func (m *testMachine) want(what string, got, want ended) {
	m.t.Helper()
	if got.exit != want.exit || !script.Mentions(got.out, want.out) || !script.Mentions(got.errors, want.errors) {
		m.t.Errorf("%s: exit %d, want %d with %q and %q\nstdout: %s\nstderr: %s",
			what, got.exit, want.exit, want.out, want.errors, got.out, got.errors)
	}
}

// must ends the test if what a machine needs fails.
func (m *testMachine) must(err error) {
	m.t.Helper()
	noError(m.t, err)
}

// noError ends a test if what it needs fails.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
