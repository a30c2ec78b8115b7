package systemd

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/prelet/prelet/internal/platform/unitfile"
)

// TestLook decodes what systemd reports of a unit, and of what keeps it from starting or stopping. A manager that does
// not know a property refuses nothing.
func TestLook(t *testing.T) {
	p := newPeer(t)
	p.units["none.service"] = map[string]any{"LoadState": "not-found", "Job": queued{0, "/"}}
	p.units["kept.service"] = kubelet(map[string]any{
		"Job":                         queued{42, jobPath(42)},
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
	})
	plain := Unit{
		State: unitfile.State{
			Active:   "active",
			Sub:      "running",
			Result:   "success",
			MainPID:  812,
			Restarts: 3,
			Started:  12_345_678 * time.Microsecond,
		},
		Relations: unitfile.Relations{After: []string{"prelet.service", "sysinit.target", "basic.target"}},
		Unread:    true,
		Definition: unitfile.Definition{Name: "kubelet.service", Load: "loaded", File: "enabled", Service: unitfile.Service{
			Environment: []string{"KUBELET_CONFIG_ARGS=--config=/x"},
			Folder:      "/var/lib/kubelet",
			Command:     []string{"/usr/bin/kubelet", "$KUBELET_CONFIG_ARGS"},
			EnvironmentFiles: []unitfile.EnvironmentFile{
				{Path: "/run/prelet/kubelet.env"}, {Path: "/etc/default/kubelet", Optional: true},
			},
		}},
	}
	kept := plain
	kept.Name, kept.Job, kept.NoStart, kept.NoStop, kept.Skipped = "kept.service", 42, true, true, 7*time.Microsecond
	kept.NeverWith = []string{"a.service", "b.service"}
	kept.FailsWith = []string{"c.service", "d.service", "e.service"}

	c := p.reach(t.Context())
	for _, want := range []Unit{plain, kept, {Definition: unitfile.Definition{Name: "none.service", Load: "not-found"}}} {
		if got, err := c.Look(t.Context(), want.Name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := c.Look(t.Context(), "denied.service"); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a refusal: got %v, want another error than ErrGone", err)
	}
}

func TestLookRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"a PID as text":         {"MainPID": "4711"},
		"a job without number":  {"Job": []string{"42", "/"}},
		"files in another form": {"EnvironmentFiles": []string{"/run/prelet/kubelet.env"}},
		"files the other way": {"EnvironmentFiles": []struct {
			Optional bool
			Path     string
		}{{true, "/x"}}},
		"no load state": {"LoadState": ""},
	} {
		p := newPeer(t)
		p.units["kubelet.service"] = kubelet(change)
		if u, err := p.reach(t.Context()).Look(t.Context(), "kubelet.service"); err == nil {
			t.Errorf("%s: got %+v, want an error", name, u)
		}
	}
}

func TestMayWait(t *testing.T) {
	for name, tc := range map[string]struct {
		own  string
		job  queued
		want bool
	}{
		"prelet.service at boot":                {"prelet.service", queued{7, jobPath(7)}, false},
		"prelet.service without a job":          {"prelet.service", queued{0, "/"}, true},
		"prelet-verify.service, which is After": {"prelet-verify.service", queued{7, jobPath(7)}, true},
		"a shell in a session":                  {"session-1.scope", queued{0, "/"}, true},
		"a process of no unit":                  {"", queued{0, "/"}, true},
	} {
		p := newPeer(t)
		p.own, p.units[tc.own] = tc.own, map[string]any{"LoadState": "loaded", "Job": tc.job}
		c := p.reach(t.Context())
		if got, err := c.MayWait(t.Context(), "kubelet.service"); got != tc.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
		p.hangUp()
		if may, err := c.MayWait(t.Context(), "kubelet.service"); may || !errors.Is(err, ErrGone) {
			t.Errorf("without a connection: got %v, %v; want an error, because a wrong guess can deadlock a boot",
				may, err)
		}
	}
}

// TestJobs queues each kind of job, and waits for its end.
func TestJobs(t *testing.T) {
	for _, result := range []string{Done, Canceled, TimedOut, Failed, Dependency, Skipped} {
		p := newPeer(t)
		p.result = result
		got, err := p.reach(t.Context()).Restart(t.Context(), "kubelet.service", time.Minute)
		if got != result || err != nil {
			t.Errorf("%s: got %s, %v; want the result of the job", result, got, err)
		}
	}

	p := newPeer(t)
	p.result = Done
	c := p.reach(t.Context())
	for _, verb := range []string{"restart", "try-restart", "reload"} {
		if got, err := c.Act(t.Context(), verb, "x.service", time.Minute); got != Done || err != nil {
			t.Errorf("%s: got %s, %v; want done", verb, got, err)
		}
	}
	if got, err := c.CreateTmpfiles(t.Context(), []string{"/etc/tmpfiles.d/x.conf"}, time.Minute); got != Done ||
		err != nil {
		t.Errorf("tmpfiles: got %s, %v; want done", got, err)
	}
	want := []string{
		"RestartUnit [x.service replace]", "TryRestartUnit [x.service replace]",
		"ReloadOrTryRestartUnit [x.service replace]",
	}
	if got := p.jobs(); !slices.Equal(got[:3], want) ||
		!strings.Contains(got[3], `["systemd-tmpfiles", "--create", "/etc/tmpfiles.d/x.conf"]`) {
		t.Errorf("asked: got %q, want %q and a transient unit", got, want)
	}

	again := newPeer(t)
	again.exists, again.result = true, Done
	got, err := again.reach(t.Context()).CreateTmpfiles(t.Context(), []string{"/x.conf"}, time.Minute)
	if jobs := again.jobs(); got != Done || err != nil || len(jobs) != 2 ||
		!strings.HasPrefix(jobs[1], "StartUnit [prelet-tmpfiles-") {
		t.Errorf("tmpfiles, whose first answer was lost: got %s, %v, %q; want the unit that is there started",
			got, err, jobs)
	}
}

// TestJobsThatAreNotAnswered: no end is waited for, or none comes in time. A late one keeps no other job from its end,
// which go-systemd reports from one goroutine.
func TestJobsThatAreNotAnswered(t *testing.T) {
	p := newPeer(t)
	c := p.reach(t.Context())
	if got, err := c.Start(t.Context(), "kubelet.service", 0); got != Queued || err != nil {
		t.Errorf("without waiting: got %s, %v; want %s", got, err, Queued)
	}
	if got, err := c.Stop(t.Context(), "kubelet.service", 5*time.Millisecond); got != Unanswered || err != nil {
		t.Errorf("no end in time: got %s, %v; want %s", got, err, Unanswered)
	}
	p.endJob(firstJob+1, Done)
	stop := errors.New("SIGTERM")
	for after := time.Millisecond; ; after *= 2 { // on a busy machine the job is not queued yet
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(after, func() { cancel(stop) })
		got, err := c.Restart(ctx, "kubelet.service", time.Hour)
		if got == Unanswered && errors.Is(err, stop) {
			break
		}
		if after > time.Minute {
			t.Fatalf("a context that ends: got %s, %v; want its cause", got, err)
		}
	}

	p = newPeer(t)
	p.reject = "org.freedesktop.systemd1.UnitMasked"
	_, err := p.reach(t.Context()).Start(t.Context(), "kubelet.service", time.Minute)
	if err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a refusal: got %v, want another error than ErrGone", err)
	}
}

// systemd refuses to start a socket whose service runs, so both are stopped first. A connection's own service stays.
func TestRestartOfASocket(t *testing.T) {
	const both = `["systemctl", "stop", "x.socket", "x.service"], false], ` +
		`["systemctl", ["systemctl", "start", "x.socket"`
	const alone = "TryRestartUnit [x.socket replace]"
	for name, c := range map[string]struct {
		socket  map[string]any
		service string
		want    string
	}{
		"the service runs":                {nil, "active", both + `, "x.service"]`},
		"the service is stopped":          {nil, "inactive", both + `]`},
		"one service for each connection": {map[string]any{"Accept": true}, "active", alone},
		"it does not run":                 {map[string]any{"ActiveState": "inactive"}, "active", alone},
		"it has no service":               {map[string]any{"Triggers": []string{}}, "active", alone},
		"it has failed":                   {map[string]any{"ActiveState": "failed"}, "active", both + `, "x.service"]`},
	} {
		socket := map[string]any{"ActiveState": "active", "Accept": false, "Triggers": []string{"x.service"}}
		maps.Copy(socket, c.socket)
		p := newPeer(t)
		p.result = Done
		p.units["x.socket"], p.units["x.service"] = socket, kubelet(map[string]any{"ActiveState": c.service})
		verb := "try-restart"
		if socket["ActiveState"] == "failed" {
			verb = "restart"
		}
		got, err := p.reach(t.Context()).Act(t.Context(), verb, "x.socket", time.Minute)
		if jobs := p.jobs(); got != Done || err != nil || len(jobs) != 1 || !strings.Contains(jobs[0], c.want) {
			t.Errorf("%s: got %s, %v, %q; want done by %q", name, got, err, jobs, c.want)
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
	if passed := clock.Monotonic() - before; passed < 2*time.Millisecond || passed > time.Minute {
		t.Errorf("2 ms on the monotonic clock: got %s, want about that", passed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep with a context that has ended: got %v, want %v", err, context.Canceled)
	}
}

// TestFailedPre reads which ExecStartPre= failed; one with "-" does not count.
func TestFailedPre(t *testing.T) {
	const exited, killed = 1, 2 // of waitid(2)
	for want, lines := range map[string][]command{
		"": {
			{Path: "/bin/a", Code: exited}, {Path: "/bin/b", Ignore: true, Code: exited, Status: 1}, {Path: "/bin/c"},
		},
		"ExecStartPre=/bin/b ended with status 3": {
			{Path: "/bin/a", Code: exited}, {Path: "/bin/b", Code: exited, Status: 3},
		},
		"ExecStartPre=/bin/a was killed by signal 11": {{Path: "/bin/a", Code: killed, Status: 11}},
	} {
		p := newPeer(t)
		p.units["kubelet.service"] = kubelet(map[string]any{"ExecStartPre": lines})
		u, err := p.reach(t.Context()).Look(t.Context(), "kubelet.service")
		if err != nil || u.FailedPre != want {
			t.Errorf("got %q, %v; want %q", u.FailedPre, err, want)
		}
	}
}

// TestFailedPreOfDropIn names the file with the ExecStartPre= that failed.
func TestFailedPreOfDropIn(t *testing.T) {
	dropIn := filepath.Join(t.TempDir(), "20-site.conf")
	must(t, os.WriteFile(dropIn, []byte("[Service]\nExecStartPre=-/bin/a\nExecStartPre=+/bin/b -x\n"), 0o600))
	p := newPeer(t)
	p.units["kubelet.service"] = kubelet(map[string]any{
		"ExecStartPre": []command{{Path: "/bin/b", Code: 1, Status: 3}}, "DropInPaths": []string{"/nowhere", dropIn},
	})
	u, err := p.reach(t.Context()).Look(t.Context(), "kubelet.service")
	if want := "ExecStartPre=/bin/b ended with status 3 (in " + dropIn + ")"; err != nil || u.FailedPre != want {
		t.Errorf("got %q, %v; want %q", u.FailedPre, err, want)
	}
}

// TestNextStart reads when systemd starts a unit again that waits for RestartSec=.
func TestNextStart(t *testing.T) {
	const changed = uint64(5_000_000) // microseconds
	for _, c := range table.YAML[[]struct {
		Sub        string
		Wait, Next uint64
		Want       table.Duration
	}](t, `
- {sub: running, wait: 600_000_000, next: 0}
- {sub: auto-restart, wait: 600_000_000, next: 0, want: 10m5s}
- {sub: auto-restart-queued, wait: 1_000_000, next: 9_000_000, want: 14s}
- {sub: auto-restart, wait: 18446744073709551615, next: 0, want: 2562047h47m16.854775807s}
`) {
		p := newPeer(t)
		p.units["kubelet.service"] = kubelet(map[string]any{
			"SubState": c.Sub, "StateChangeTimestampMonotonic": changed, "RestartUSec": c.Wait, "RestartUSecNext": c.Next,
		})
		u, err := p.reach(t.Context()).Look(t.Context(), "kubelet.service")
		if err != nil || u.NextStart != c.Want.Duration {
			t.Errorf("%+v: got %s, %v; want %s", c, u.NextStart, err, c.Want)
		}
	}
}

// TestMounts asks for the mount units at and above paths, and joins each with its automount unit.
func TestMounts(t *testing.T) {
	p := newPeer(t)
	p.states = []dbus.UnitStatus{
		{Name: "var.mount", LoadState: "loaded", ActiveState: "active"},
		{Name: "var-lib-kubelet.mount", LoadState: "loaded", ActiveState: "inactive", JobId: 7, JobType: "start"},
		{Name: "etc-kubernetes.mount", LoadState: "loaded", ActiveState: "inactive"},
		{Name: "etc-kubernetes.automount", LoadState: "loaded", ActiveState: "active"},
		{Name: `etc-my\x2dapp.mount`, LoadState: "loaded", ActiveState: "failed", JobId: 8, JobType: "stop"},
		{Name: "etc.mount", LoadState: "masked", ActiveState: "inactive"},
		{Name: "var-lib.mount", LoadState: "not-found", ActiveState: "inactive"},
		{Name: "etc-hand.mount", LoadState: "loaded", ActiveState: "inactive"},
		{Name: "etc-hand-on.mount", LoadState: "loaded", ActiveState: "active"},
		{Name: "etc-list.mount", LoadState: "loaded", ActiveState: "inactive"},
		{Name: "etc-fstab.mount", LoadState: "loaded", ActiveState: "inactive"},
	}
	p.units["etc-hand.mount"] = map[string]any{"FragmentPath": "", "SourcePath": ""}
	p.units["etc-hand-on.mount"] = p.units["etc-hand.mount"]
	p.units["etc-list.mount"] = map[string]any{"FragmentPath": "", "SourcePath": "/proc/self/mountinfo"}
	p.units["etc-fstab.mount"] = map[string]any{
		"FragmentPath": "/run/systemd/generator/etc-fstab.mount", "SourcePath": "/etc/fstab",
	}

	paths := []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes", "/etc/my-app/x", "/etc/hand/on", "/etc/list", "/etc/fstab"}
	got, err := p.reach(t.Context()).Mounts(t.Context(), paths)
	want := []Mount{
		{Path: "/etc/fstab", Unit: "etc-fstab.mount", State: "inactive"},
		{Path: "/etc/hand/on", Unit: "etc-hand-on.mount", State: "active", Active: true},
		{Path: "/etc/kubernetes", Unit: "etc-kubernetes.mount", State: "inactive", Active: true},
		{Path: "/etc/my-app", Unit: `etc-my\x2dapp.mount`, State: "failed"},
		{Path: "/var", Unit: "var.mount", State: "active", Active: true},
		{Path: "/var/lib/kubelet", Unit: "var-lib-kubelet.mount", State: "inactive", Job: true},
	}

	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}
