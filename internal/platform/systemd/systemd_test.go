package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// fakeManager answers in the D-Bus types that go-systemd hands on: (uo) as []any, a(sb) as [][]any.
type fakeManager struct {
	own        string // unit of this process; empty: none
	properties map[string]map[string]any
	result     string // of a job; empty: never reported
	mounts     map[string]dbus.UnitStatus
	down       bool // Connected is false
	asked      []string
	jobs       []dbus.JobStatus
	heard      bool // a transient unit of that name is there
	buffer     int  // capacity of the last result channel; -1: nil
	err        error
}

var errNoUnit = errors.New("PID 4711 does not belong to any loaded unit")

func (f *fakeManager) GetUnitNameByPID(context.Context, uint32) (string, error) {
	if f.own == "" {
		return "", errNoUnit
	}
	return f.own, nil
}
func (f *fakeManager) GetAllPropertiesContext(_ context.Context, name string) (map[string]any, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.properties[name], nil
}
func (f *fakeManager) job(verb, name, mode string, result chan<- string) (int, error) {
	f.asked = append(f.asked, verb+" "+name+" "+mode)
	f.buffer = -1
	if f.err != nil {
		return 0, f.err
	}
	if result != nil {
		f.buffer = cap(result)
		if f.result != "" {
			result <- f.result // as go-systemd does, from its dispatch goroutine: blocks for ever without a buffer
		}
	}
	return 1, nil
}
func (f *fakeManager) StartUnitContext(_ context.Context, name, mode string, result chan<- string) (int, error) {
	return f.job("start", name, mode, result)
}
func (f *fakeManager) RestartUnitContext(_ context.Context, name, mode string, result chan<- string) (int, error) {
	return f.job("restart", name, mode, result)
}
func (f *fakeManager) StopUnitContext(_ context.Context, name, mode string, result chan<- string) (int, error) {
	return f.job("stop", name, mode, result)
}
func (f *fakeManager) ListJobsContext(context.Context) ([]dbus.JobStatus, error) {
	return f.jobs, nil
}

func (f *fakeManager) ResetFailedUnitContext(context.Context, string) error {
	return f.err
}
func (f *fakeManager) ListUnitsByNamesContext(_ context.Context, names []string) (out []dbus.UnitStatus, err error) {
	for _, name := range names {
		u := dbus.UnitStatus{Name: name, LoadState: "not-found", ActiveState: "inactive"}
		if known, ok := f.mounts[name]; ok {
			u = known
			u.Name = name
		}
		out = append(out, u)
	}
	return out, f.err
}
func (f *fakeManager) TryRestartUnitContext(_ context.Context, name, mode string, result chan<- string) (int, error) {
	return f.job("try-restart", name, mode, result)
}

func (f *fakeManager) ReloadOrTryRestartUnitContext(
	_ context.Context,
	name, mode string,
	result chan<- string,
) (int, error) {
	return f.job("reload", name, mode, result)
}

func (f *fakeManager) StartTransientUnitContext(
	_ context.Context,
	_, mode string,
	p []dbus.Property,
	result chan<- string,
) (int, error) {
	if f.heard {
		return 0, godbus.Error{Name: "org.freedesktop.systemd1.UnitExists"}
	}
	return f.job("transient", fmt.Sprint(p[2].Value), mode, result)
}
func (f *fakeManager) ReloadContext(context.Context) error { return f.err }
func (f *fakeManager) Connected() bool                     { return !f.down }
func (f *fakeManager) Close()                              {}

func kubelet(change map[string]any) map[string]any {
	p := map[string]any{
		"Id": "kubelet.service", "LoadState": "loaded", "UnitFileState": "enabled",
		"ActiveState": "activating", "SubState": "auto-restart", "Result": "resources",
		"Job": []any{uint32(0), "/"}, "NeedDaemonReload": true,
		"After":   []string{"prelet.service", "sysinit.target", "basic.target"},
		"MainPID": uint32(0), "NRestarts": uint32(3), "ExecMainStartTimestampMonotonic": uint64(12_345_678),
		"EnvironmentFiles": [][]any{{"/run/prelet/kubelet.env", false}, {"/var/lib/kubelet/kubeadm-flags.env", true}},
	}
	for k, v := range change {
		p[k] = v
	}
	return p
}

func conn(f *fakeManager) *Conn { return &Conn{manager: f, pid: 4711, heartbeat: time.Millisecond} }

func TestLook(t *testing.T) {
	f := &fakeManager{properties: map[string]map[string]any{
		"kubelet.service": kubelet(map[string]any{"Job": []any{uint32(42), "/org/freedesktop/systemd1/job/42"}}),
		"none.service": {
			"LoadState":   "not-found",
			"ActiveState": "inactive",
			"SubState":    "dead",
			"Job":         []any{uint32(0), "/"},
		},
	}}
	u, err := conn(f).Look(t.Context(), "kubelet.service")
	if err != nil {
		t.Fatal(err)
	}
	if u.Load != "loaded" || u.File != "enabled" || u.Active != "activating" || u.Sub != "auto-restart" || u.Result != "resources" ||
		u.Job != 42 || !u.Unread || u.Restarts != 3 ||
		u.MainPID != 0 ||
		u.Started != 12_345_678*time.Microsecond {
		t.Errorf("Look: got %+v; want the properties of kubelet.service", u)
	}
	if len(u.EnvironmentFiles) != 2 || u.EnvironmentFiles[0].Path != "/run/prelet/kubelet.env" ||
		u.EnvironmentFiles[0].Optional ||
		!u.EnvironmentFiles[1].Optional {
		t.Errorf("EnvironmentFiles: got %+v; want two, the second optional", u.EnvironmentFiles)
	}
	if u, err = conn(f).Look(t.Context(), "none.service"); err != nil || u.Load != "not-found" {
		t.Errorf("a unit that does not exist: got %+v, %v; want not-found", u, err)
	}
}

func TestLookRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"a PID as text":         {"MainPID": "4711"},
		"a job without number":  {"Job": []any{"42", "/"}},
		"files in another form": {"EnvironmentFiles": [][]any{{"/run/prelet/kubelet.env"}}},
		"files with swapped":    {"EnvironmentFiles": [][]any{{false, "/run/prelet/kubelet.env"}}},
		"no load state":         {"LoadState": ""},
	} {
		f := &fakeManager{properties: map[string]map[string]any{"kubelet.service": kubelet(change)}}
		if u, err := conn(f).Look(t.Context(), "kubelet.service"); err == nil {
			t.Errorf("%s: got %+v, want an error", name, u)
		}
	}
}

func TestMayWait(t *testing.T) {
	busy := map[string]any{"LoadState": "loaded", "Job": []any{uint32(7), "/x"}}
	idle := map[string]any{"LoadState": "loaded", "Job": []any{uint32(0), "/"}}
	for name, tc := range map[string]struct {
		own  string
		unit map[string]any
		want bool
	}{
		"prelet.service at boot":                {"prelet.service", busy, false},
		"prelet.service without a job":          {"prelet.service", idle, true},
		"prelet-verify.service, which is After": {"prelet-verify.service", busy, true},
		"a shell in a session":                  {"session-1.scope", idle, true},
		"a process of no unit":                  {"", nil, true},
	} {
		f := &fakeManager{
			own:        tc.own,
			properties: map[string]map[string]any{"kubelet.service": kubelet(nil), tc.own: tc.unit},
		}
		if got, err := conn(f).MayWait(t.Context(), "kubelet.service"); got != tc.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	f := &fakeManager{down: true}
	if may, err := conn(f).MayWait(t.Context(), "kubelet.service"); may || !errors.Is(err, ErrGone) {
		t.Errorf("without a connection: got %v, %v; want an error, because a wrong guess can deadlock a boot", may, err)
	}
}

func TestJobs(t *testing.T) {
	for _, result := range []string{Done, Canceled, TimedOut, Failed, Dependency, Skipped} {
		f := &fakeManager{result: result}
		got, err := conn(f).Restart(t.Context(), "kubelet.service", time.Minute)
		if got != result || err != nil {
			t.Errorf("%s: got %s, %v; want the result of the job", result, got, err)
		}
		if f.asked[0] != "restart kubelet.service replace" {
			t.Errorf("jobs: got %q, want one with mode %s", f.asked, jobMode)
		}
		if f.buffer < 1 {
			t.Errorf("buffer of the channel: got %d, want 1, because go-systemd would block", f.buffer)
		}
	}
	f := &fakeManager{result: Done}
	for _, verb := range []string{"restart", "try-restart", "reload"} {
		if got, err := conn(f).Act(t.Context(), verb, "x.service", time.Minute); got != Done || err != nil {
			t.Errorf("%s: got %s, %v; want done", verb, got, err)
		}
	}
	if got, err := conn(f).CreateTmpfiles(t.Context(), []string{"/etc/tmpfiles.d/x.conf"}, time.Minute); got != Done ||
		err != nil {
		t.Errorf("tmpfiles: got %s, %v; want done", got, err)
	}
	again := &fakeManager{heard: true, result: Done}
	if got, err := conn(again).CreateTmpfiles(t.Context(), []string{"/x.conf"}, time.Minute); got != Done ||
		err != nil {
		t.Errorf("tmpfiles, whose first answer was lost: got %s, %v; want done", got, err)
	}
	if len(again.asked) != 1 || !strings.HasPrefix(again.asked[0], "start prelet-tmpfiles-") {
		t.Errorf("asked: got %q, want the unit that is there to be started", again.asked)
	}
	want := []string{"restart x.service replace", "try-restart x.service replace", "reload x.service replace"}
	if !slices.Equal(f.asked[:3], want) ||
		!strings.Contains(f.asked[3], `["/usr/bin/systemd-tmpfiles", "--create", "/etc/tmpfiles.d/x.conf"]`) {
		t.Errorf("asked: got %q, want %q and a transient unit", f.asked, want)
	}
	f = &fakeManager{}
	if got, err := conn(f).Start(t.Context(), "kubelet.service", 0); got != Queued || err != nil || f.buffer != -1 {
		t.Errorf("without waiting: got %s, %v, channel %d; want %s and no channel", got, err, f.buffer, Queued)
	}
	if got, err := conn(f).Stop(t.Context(), "kubelet.service", 5*time.Millisecond); got != Unanswered || err != nil {
		t.Errorf("no end in time: got %s, %v; want %s", got, err, Unanswered)
	}
	f.down = true
	if got, err := conn(f).Stop(t.Context(), "kubelet.service", time.Minute); got != Unanswered ||
		!errors.Is(err, ErrGone) {
		t.Errorf("the connection ends meanwhile: got %s, %v; want ErrGone", got, err)
	}
	f = &fakeManager{err: errors.New("Unit kubelet.service is masked.")}
	if _, err := conn(f).Start(t.Context(), "kubelet.service", time.Minute); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a refusal: got %v, want another error than ErrGone", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("SIGTERM")
	time.AfterFunc(time.Millisecond, func() { cancel(stop) })
	if got, err := conn(&fakeManager{}).Restart(ctx, "kubelet.service", time.Minute); got != Unanswered ||
		!errors.Is(err, stop) {
		t.Errorf("a context that ends: got %s, %v; want its cause", got, err)
	}
}

// systemd refuses to start a socket whose service runs, so both are stopped first. A connection's own service stays.
func TestRestartOfASocket(t *testing.T) {
	both := `["/usr/bin/systemctl", "stop", "x.socket", "x.service"], false,), ` +
		`("/usr/bin/systemctl", ["/usr/bin/systemctl", "start", "x.socket"`
	for name, c := range map[string]struct {
		socket  map[string]any
		service string
		want    string
	}{
		"the service runs":       {map[string]any{"Triggers": []string{"x.service"}}, "active", both + `, "x.service"]`},
		"the service is stopped": {map[string]any{"Triggers": []string{"x.service"}}, "inactive", both + `]`},
		"one service for each connection": {
			map[string]any{"Triggers": []string{"x@1.service"}, "Accept": true}, "active", "try-restart x.socket replace",
		},
		"it does not run": {
			map[string]any{"Triggers": []string{"x.service"}, "ActiveState": "inactive"}, "active", "try-restart x.socket replace",
		},
		"it has no service": {nil, "active", "try-restart x.socket replace"},
		"it has failed":     {map[string]any{"Triggers": []string{"x.service"}, "ActiveState": "failed"}, "active", both + `, "x.service"]`},
	} {
		socket := map[string]any{"LoadState": "loaded", "ActiveState": "active", "Accept": false}
		maps.Copy(socket, c.socket)
		f := &fakeManager{result: Done, properties: map[string]map[string]any{
			"x.socket": socket, "x.service": {"LoadState": "loaded", "ActiveState": c.service},
		}}
		verb := "try-restart"
		if socket["ActiveState"] == "failed" {
			verb = "restart"
		}
		got, err := conn(f).Act(t.Context(), verb, "x.socket", time.Minute)
		if got != Done || err != nil || len(f.asked) != 1 || !strings.Contains(f.asked[0], c.want) {
			t.Errorf("%s: got %s, %v, %q; want done by %q", name, got, err, f.asked, c.want)
		}
	}
}

func TestConnectIsBoundedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if bus, err := connect(ctx, patience); err == nil {
		bus.Close() // a machine with systemd may reply first
	} else if !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}

func TestBootID(t *testing.T) {
	const id = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	root := fstest.MapFS{"proc/sys/kernel/random/boot_id": {Data: []byte("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\n")}}
	for name, tc := range map[string]struct {
		env  string
		root fstest.MapFS
		want string
	}{
		"the unit says it":         {"11111111111111111111111111111111", root, "11111111111111111111111111111111"},
		"the kernel says it":       {"", root, id},
		"upper case":               {"0F1E2D3C4B5A69788796A5B4C3D2E1F0", root, id},
		"%b that was not expanded": {"%b", root, ""},
		"too short":                {"11111111", root, ""},
		"no proc":                  {"", fstest.MapFS{}, ""},
	} {
		got, err := BootID(func(string) string { return tc.env }, tc.root)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

func TestClock(t *testing.T) {
	var clock Clock
	before := clock.Monotonic()
	if err := clock.Sleep(t.Context(), 2*time.Millisecond); err != nil {
		t.Error(err)
	}
	if passed := clock.Monotonic() - before; passed < 2*time.Millisecond || passed > 10*time.Second {
		t.Errorf("2 ms on the monotonic clock: got %s, want about that", passed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep with a context that has ended: got %v, want %v", err, context.Canceled)
	}
}

// TestLookAtWhatKeepsAUnit reads what keeps systemd from starting or stopping a unit. A manager that does not know a
// property refuses nothing.
func TestLookAtWhatKeepsAUnit(t *testing.T) {
	f := &fakeManager{properties: map[string]map[string]any{
		"plain.service": kubelet(nil),
		"kept.service": kubelet(map[string]any{
			"CanStart":                    false,
			"CanStop":                     false,
			"Conflicts":                   []string{"a.service"},
			"ConflictedBy":                []string{"b.service"},
			"Requires":                    []string{"c.service"},
			"Requisite":                   []string{"d.service"},
			"BindsTo":                     []string{"e.service"},
			"ConditionResult":             true,
			"ConditionTimestampMonotonic": uint64(9),
			"AssertResult":                false,
			"AssertTimestampMonotonic":    uint64(7),
		}),
	}}

	u, err := conn(f).Look(t.Context(), "plain.service")
	if err != nil || u.NoStart || u.NoStop || u.Skipped != 0 || len(u.NeverWith)+len(u.FailsWith) != 0 {
		t.Errorf("without such properties: got %+v, %v; want nothing that keeps it", u, err)
	}

	u, err = conn(f).Look(t.Context(), "kept.service")
	if err != nil || !u.NoStart || !u.NoStop || u.Skipped != 7*time.Microsecond ||
		!slices.Equal(u.NeverWith, []string{"a.service", "b.service"}) ||
		!slices.Equal(u.FailsWith, []string{"c.service", "d.service", "e.service"}) {
		t.Errorf("got %+v, %v; want all of them", u, err)
	}
}

// TestFailedPre reads which ExecStartPre= failed; one with "-" does not count.
func TestFailedPre(t *testing.T) {
	line := func(path string, ignore bool, code, status int32) []any {
		var zero uint64
		return []any{path, []string{path}, ignore, zero, zero, zero, zero, uint32(7), code, status}
	}
	for want, lines := range map[string][][]any{
		"": {line("/bin/a", false, 1, 0), line("/bin/b", true, 1, 1), line("/bin/c", false, 0, 0)},
		"ExecStartPre=/bin/b ended with status 3":     {line("/bin/a", false, 1, 0), line("/bin/b", false, 1, 3)},
		"ExecStartPre=/bin/a was killed by signal 11": {line("/bin/a", false, 2, 11)},
	} {
		f := &fakeManager{properties: map[string]map[string]any{
			"kubelet.service": kubelet(map[string]any{"ExecStartPre": lines}),
		}}
		u, err := conn(f).Look(t.Context(), "kubelet.service")
		if err != nil || u.FailedPre != want {
			t.Errorf("got %q, %v; want %q", u.FailedPre, err, want)
		}
	}
}

// TestMounts asks for the mount units at and above paths, and joins each with its automount unit.
func TestMounts(t *testing.T) {
	f := &fakeManager{mounts: map[string]dbus.UnitStatus{
		"var.mount":                {LoadState: "loaded", ActiveState: "active"},
		"var-lib-kubelet.mount":    {LoadState: "loaded", ActiveState: "inactive", JobId: 7, JobType: "start"},
		"etc-kubernetes.mount":     {LoadState: "loaded", ActiveState: "inactive"},
		"etc-kubernetes.automount": {LoadState: "loaded", ActiveState: "active"},
		`etc-my\x2dapp.mount`:      {LoadState: "loaded", ActiveState: "failed", JobId: 8, JobType: "stop"},
		"etc.mount":                {LoadState: "masked", ActiveState: "inactive"},
	}}

	got, err := conn(
		f,
	).Mounts(t.Context(), []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes", "/etc/my-app/x"})
	want := []Mount{
		{Path: "/etc/kubernetes", Unit: "etc-kubernetes.mount", State: "inactive", Active: true},
		{Path: "/etc/my-app", Unit: `etc-my\x2dapp.mount`, State: "failed"},
		{Path: "/var", Unit: "var.mount", State: "active", Active: true},
		{Path: "/var/lib/kubelet", Unit: "var-lib-kubelet.mount", State: "inactive", Job: true},
	}

	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}
