package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/report"
)

// systemd does not answer at a boot with nothing to do: the gate opens all the same, the unit says 52.
func TestNoSystemdAtBoot(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.reboot()
	m.gone = true
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{52, "", "connection refused"})
	if m.gateSays() != "PRELET_GENERATION=1" {
		t.Errorf("gate %q", m.gateSays())
	}
	// With something to change it is not changed.
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	before := m.disk()
	m.want("run", m.as(app.BootUnit, "run"), ended{52, "", "connection refused"})
	if !maps.Equal(before, m.disk()) {
		t.Error("it was changed")
	}
}

// What the CPU manager's state lists may be held by pods: it goes only where no kubelet has run since the boot, or
// somebody stopped it.
func TestStateWhilePodsMayRun(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	const state = "/var/lib/kubelet/cpu_manager_state"
	m.put(state, `{"policyName":"none"}`)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  kubelet_config { patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" } }
}`, 1))
	before := m.disk()
	for _, unit := range []string{"", app.BootUnit} {
		m.want("run", m.as(unit, "run"), ended{40, "", "drain the node and reboot it"})
		m.unchanged("refused", before)
	}
	m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "inactive", "dead", 0
	m.want("stopped", m.as("", "run"), ended{0, "Generation 2 is in place", ""})
	if m.read(state) != "" {
		t.Error("the kubelet would end on it")
	}
}

// A unit that waits to try again must not hold up a kubelet that may start.
func TestShortWaitWhileTheGateIsOpen(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.masked = true
	m.want("run", m.as("", "run"), ended{52, "", "masked"})
	if _, err := os.Stat(m.run + "/attempts"); err == nil {
		t.Error("a run by hand is counted as one that systemd tries again")
	}
	for n := range 8 {
		m.self.Restarts = uint32(n)
		from := m.now
		m.want("run", m.as(app.BootUnit, "run"), ended{52, "", "eneration 1 stays in charge"})
		if waited := m.now - from; waited > app.MaxOpenWait {
			t.Errorf("try %d came after %s", n+1, waited)
		}
	}
}

// SIGTERM while the plan is made: nothing is changed, the generation in place stays in charge, a fresh node stays shut.
func TestStoppedBeforeCommit(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		var m *machine
		if fresh {
			m = newMachine(t)
		} else {
			m = goodNode(t)
			m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
			m.reboot()
		}
		if err := os.WriteFile(m.run+"/attempts", []byte("2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m.self.Restarts = 2
		m.slept = m.terminated
		before := m.disk()
		m.inside = true
		m.want("run", m.as(app.BootUnit, "run"), ended{52, "", "stopped"})
		if !maps.Equal(before, m.disk()) {
			t.Error("a run that was stopped while it waited wrote to the disk")
		}
	}
}

// The reader of a command's output may close it early (run | head): that must not end a command that writes files.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"run", "rollback", "recover"} {
		m := goodNode(t)
		signal.Reset(syscall.SIGPIPE)
		m.as("", command)
		if !signal.Ignored(syscall.SIGPIPE) {
			t.Errorf("%s ends by SIGPIPE", command)
		}
	}
	signal.Reset(syscall.SIGPIPE)
}

// The kubelet is unhealthy after the rollback too: 51, and the plan is not held.
func TestStillIll(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.sick = func() error { return errors.New("503 Service Unavailable") }
	m.want("run", m.as("", "run"), ended{51, "", "503"})
	if s := m.says(); s.State != report.Failed || s.Exit != 51 || s.Held != nil {
		t.Errorf("%+v", s)
	}
	m.want("history", m.as("", "history"), ended{0, "rolled back", ""})
	m.want("history", m.as("", "history", "-o", "json"), ended{0, `"status":"rolledback"`, ""})
	if got := m.as("", "history"); strings.Contains(got.out, "Held") {
		t.Errorf("the plan is held:\n%s", got.out)
	}
}

// A credential that is missing has an exit status of its own.
func TestNoToken(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.Remove(m.creds + "/bootstrap-token"); err != nil {
		t.Fatal(err)
	}
	run, _ := m.boot()
	m.want("run", run, ended{11, "", "bootstrap-token"})
	if m.gateSays() != "" {
		t.Errorf("gate %q", m.gateSays())
	}
}

// TestLocked: while another prelet holds the lock, a run waits and changes nothing. It goes on after the release.
func TestLocked(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	store := m.lock()
	before := m.disk()
	waited := false
	m.slept = func(context.Context) {
		waited = true
		m.unchanged("while the lock is held", before)
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}

	m.want("run", m.as("", "run"), ended{0, "Generation 2 is in place", ""})

	if !waited {
		t.Error("got a run that does not wait; want one that waits for the lock")
	}
}

// Files below a root: back, pinned, released, recovered; no unit is asked.
func TestRollbackBelowRoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.gone = true
	root := []string{"--root", m.root}
	with := func(args ...string) ended { return m.as("", append(args, root...)...) }
	m.want("run", with("run"), ended{0, "Generation 1 is in place.", ""})
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
	m.want("run", with("run"), ended{0, "Generation 2 is in place.", ""})
	m.want("rollback", with("rollback"), ended{0, "Generation 3 is in place; it has the contents of generation 1.", ""})
	m.want("run", with("run"), ended{0, "is pinned", ""})
	if !strings.Contains(m.read("/etc/default/kubelet"), "pool=a") {
		t.Errorf("flags %q", m.read("/etc/default/kubelet"))
	}
	m.want("history", with("history"), ended{0, "contents of 1", ""})
	m.want("recover", with("recover"), ended{0, "Nothing was interrupted.", ""})
	m.want("release", with("rollback", "--release"), ended{0, "Released", ""})
	m.want("run", with("run"), ended{0, "Generation 4 is in place.", ""})
	m.want("rollback to nothing", with("rollback", "0"), ended{0, "as before prelet", ""})
	if m.read("/etc/default/kubelet") != "" {
		t.Errorf("flags %q", m.read("/etc/default/kubelet"))
	}
	m.want("run", with("run"), ended{0, "is pinned", ""})
	m.want("retry", with("run", "--retry"), ended{0, "Generation 6 is in place.", ""})
}

// Somebody asks while a unit waits for its next try: it does not wait on, and in prelet-apply.service the request is
// what it does next.
func TestRequestEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{app.BootUnit, app.ApplyUnit} {
		m := newMachine(t)
		m.units.start() // without a gate: it waits to try again
		if err := os.WriteFile(m.run+"/attempts", []byte("20\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m.self.Restarts = 20
		m.slept = func(context.Context) {
			if err := os.WriteFile(m.run+"/request-AB.json", []byte(`{"args":["run"]}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		from := m.now
		if unit == app.BootUnit {
			m.inside = true
		}
		m.want(unit, m.as(unit, "run"), ended{0, "Generation 1 is in place", ""})
		if took := m.now - from; took > 30*time.Second {
			t.Errorf("%s took %s", unit, took)
		}
		_, err := os.Stat(m.run + "/reply-AB.json")
		if answered := err == nil; answered != (unit == app.ApplyUnit) {
			t.Errorf("%s: answered: %v", unit, answered)
		}
	}
}

// The journal is damaged, and a file is not as committed, so that the files may be a mixture: no plan is made on top of
// the unknown state, the gate stays shut at boot, and the message says what to do.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/var/lib/prelet/journal.json", `{"cut`)
	m.put("/etc/default/kubelet", "edited")
	before := m.disk()
	for _, unit := range []string{"", app.BootUnit} {
		m.want("run", m.as(unit, "run"), ended{41, "", "/journal.json.aside"})
		m.unchanged("refused", before)
	}
	m.reboot()
	m.want("boot", m.as(app.BootUnit, "run"), ended{41, "", "Manual recovery needed"})
	if gate := m.gateSays(); gate != "" {
		t.Errorf("gate %q", gate)
	}
}

// SIGTERM while a response of the cluster is awaited is reported as a signal, not as a fault of the network.
func TestStoppedWhileItGathers(t *testing.T) {
	m := newMachine(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for first := true; ; first = false {
			c, err := l.Accept() // and never answers
			if err != nil {
				return
			}
			defer c.Close()
			if first {
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			}
		}
	}()
	m.put(
		"/etc/prelet/site.hcl",
		strings.Replace(strings.Replace(m.site, m.server.URL(), "https://"+l.Addr().String(), 1), `"5s"`, `"1m"`, 1),
	)
	got := m.as("", "run")
	m.want("run", got, ended{42, "", "Stopped by a signal"})
	if strings.Contains(got.errors, "the cluster") {
		t.Errorf("the cluster is at fault:\n%s", got.errors)
	}
	for _, p := range []string{"/etc/default/kubelet", "/etc/kubernetes/bootstrap-kubelet.conf", "/var/lib/kubelet/config.yaml", "/var/lib/prelet/generations/1"} {
		if m.read(p) != "" {
			t.Errorf("%s was written", p)
		}
	}
}

// prelet.service is killed at each try, in a boot of a node with a good generation: from the third death on
// prelet-verify opens the gate on it. Once the gate is open, its report is not written again.
func TestKilledAtEachTry(t *testing.T) {
	t.Parallel()
	for _, hasBegun := range []bool{false, true} {
		for name, c := range map[string]struct {
			unit activation.Unit
			want string // "" where nothing shows that prelet cannot run
		}{
			"twice":     {activation.Unit{Result: "signal", Status: 9, Restarts: 1}, ""},
			"runs":      {activation.Unit{Result: "success", MainPID: 7, Restarts: 4}, ""},
			"fails":     {activation.Unit{Result: "exit-code", Status: 40, Restarts: 4}, ""},
			"three":     {activation.Unit{Result: "signal", Status: 9, Restarts: 2}, "(signal, SIGKILL): the kernel kills it"},
			"no memory": {activation.Unit{Result: "oom-kill", Status: 9, Restarts: 2}, "(oom-kill, SIGKILL)"},
			"aborts":    {activation.Unit{Result: "core-dump", Status: 6, Restarts: 7}, "at each of 8 tries (core-dump, SIGABRT)"},
			"panics":    {activation.Unit{Result: "exit-code", Status: 2, Restarts: 2}, "(exit-code, status 2)"},
			"hangs":     {activation.Unit{Result: "timeout", Status: 15, Started: 3, Restarts: 2}, "(timeout, SIGTERM)"},
		} {
			t.Run(fmt.Sprintf("%s, has begun %v", name, hasBegun), func(t *testing.T) {
				t.Parallel()
				m := goodNode(t)
				m.reboot()
				m.apply = func() {}
				m.units.start()
				if hasBegun {
					m.write("status.json", `{"format_version":1,"state":"running","boot_id":"`+m.bootID()+`"}`)
				}
				c.unit.Name, c.unit.Load, c.unit.Active, c.unit.Sub = app.BootUnit, "loaded", "activating", "auto-restart"
				m.self = c.unit
				m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
				if c.want == "" {
					if m.gateSays() != "" {
						t.Errorf("gate: got %q, want it shut", m.gateSays())
					}
					return
				}
				if m.gateSays() != "PRELET_GENERATION=1" {
					t.Errorf("gate: got %q, want generation 1", m.gateSays())
				}
				status := m.as("", "status")
				status.out = strings.Join(strings.Fields(status.out), " ")
				m.want("status", status, ended{1, c.want, ""})
				m.want("status", status, ended{1, "prelet run tries again", ""})
				if len(m.console) != 1 || !strings.Contains(m.console[0], "the kubelet starts on generation 1") {
					t.Errorf("console: got %q, want one line with the generation", m.console)
				}
			})
		}
	}
}

// A site with an error on a node with a good generation: status is degraded, with the journal that has the messages,
// and the console has one line for each different failure.
func TestBrokenSiteIsDegraded(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
	m.reboot()
	for _, c := range []struct {
		unit, exit string
		lines      int
	}{{app.BootUnit, "journalctl -u prelet.service", 1}, {app.BootUnit, "journalctl -u prelet.service", 1},
		{app.ApplyUnit, "journalctl -u prelet-apply.service", 1}, {"", "if it did not print the messages", 1}} {
		m.inside = c.unit == app.BootUnit
		m.want("run", m.as(c.unit, "run"), ended{10, "", "lable"})
		m.inside = false
		status := m.as("", "status")
		status.out = strings.Join(strings.Fields(status.out), " ")
		m.want("status", status, ended{2, "prelet degraded: the run failed, and the generation in place stays", ""})
		m.want("status", status, ended{2, c.exit, ""})
		if len(m.console) != c.lines || !strings.Contains(m.console[0],
			"prelet failed (10), the kubelet starts on generation 1, which was in place: ") ||
			!strings.Contains(m.console[0], "site.hcl:13:") {
			t.Errorf("console: got %q, want one line with the place", m.console)
		}
	}
	m.want("status", m.as("", "status", "-o", "json"), ended{2, `"state":"failed"`, ""})

	m = newMachine(t) // without a generation it is a failure
	m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
	run, _ := m.boot()
	m.want("run", run, ended{10, "", "lable"})
	m.want("status", m.as("", "status"), ended{1, "failed", ""})
	if len(m.console) != 1 || !strings.Contains(m.console[0], "the kubelet may not start") {
		t.Errorf("console: got %q, want that the kubelet may not start", m.console)
	}
}

// The kubelet's certificate expires after a commit and before its verdict, and the kubelet ends: the plan is not to
// blame, and is not held; with the clock right again it is judged good.
func TestExpiredWhileJudged(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.relabel("b")
	m.sick = func() error { return errors.New("connection refused") }
	m.expired = "the certificate of /etc/kubernetes/kubelet.conf expired (the clock is at 2099-01-01T00:00:00Z)"
	res := m.as("", "run")
	m.want("run", res, ended{0, "the plan is not at fault", ""})
	m.want("status", m.as("", "status"), ended{2, "unjudged", ""})
	if held := m.read("/var/lib/prelet/held.json"); strings.Contains(held, "unhealthy") {
		t.Errorf("held: got %s, want no plan", held)
	}
	m.expired, m.sick = "", nil
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "Generation 2 is in place, and the kubelet is healthy", ""})
}

// The Node object is deleted while the kubelet runs: verify finds that, and status is not ok until the kubelet is
// healthy again.
func TestNodeDeleted(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.want("status", m.as("", "status"), ended{0, "ok", ""})
	m.nodeFail = errors.New("node n1 is not registered")
	for range 2 {
		m.want("verify", m.as("", "verify"), ended{50, "", "node n1 is not registered"})
		status := m.as("", "status")
		status.out = strings.Join(strings.Fields(status.out), " ")
		m.want("status", status, ended{2, "prelet verify: the kubelet is unhealthy on generation 1: node", ""})
		if n := strings.Count(status.out, "prelet verify:"); n != 1 {
			t.Errorf("status has it %d times, want once: %s", n, status.out)
		}
	}
	m.nodeFail = nil
	m.want("verify", m.as("", "verify"), ended{0, "", ""})
	m.want("status", m.as("", "status"), ended{0, "ok", ""})
}
