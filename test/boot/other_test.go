package boot

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

const readerUnit = `[Unit]
Description=reads a file when it starts and when it is reloaded
%s
[Service]
ExecStartPre=/bin/sh -c 'echo "start $(cat /etc/reader/x.conf)" >>/run/%s.log; ! grep -q broken /etc/reader/x.conf'
ExecStart=/bin/sleep infinity
ExecReload=/bin/sh -c 'echo "reload $(cat /etc/reader/x.conf)" >>/run/%s.log'
[Install]
WantedBy=multi-user.target
`

// reading is a machine with a service that reads a file of the site, before prelet, and one that starts after it.
func reading(t *testing.T) *machine {
	m := newMachine(t)
	m.Env = []string{"SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"} // for the kernel's parameters of its network
	m.put("/etc/systemd/system/reader.service", fmt.Sprintf(readerUnit, "Before=prelet.service", "reader", "reader"))
	m.put("/etc/systemd/system/late.service", fmt.Sprintf(readerUnit, "After=prelet.service", "late", "late"))
	m.put("/etc/reader/x.conf", "none\n")
	if out, err := exec.Command("chroot", m.Root, "systemctl", "enable", "reader.service", "late.service").
		CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: got %v: %s; want no error", err, out)
	}
	m.reads("one", "restart")
	m.Boot()
	m.verdict("good")

	return m
}

// reads writes the site's file with a content.
func (m *machine) reads(content, action string) {
	m.put("/etc/prelet/reader.hcl", fmt.Sprintf(`override {
  stage "write" "kubelet" {
    file "reader" {
      path    = "/etc/reader/x.conf"
      content = "%s\n"
      notify  = [stage.restart.reader, stage.restart.late]
    }
    file "sysctl" {
      path    = "/etc/sysctl.d/90-x.conf"
      content = "net.core.somaxconn = %d\n"
    }
    file "tmpfiles" {
      path    = "/etc/tmpfiles.d/x.conf"
      content = "d /var/lib/made-by-%s 0755 root root -\n"
    }
  }
}
stage "restart" "reader" {
  unit   = "reader.service"
  action = "%s"
}
stage "restart" "late" { unit = "late.service" }
`, content, 3000+len(content), content, action))
}

func (m *machine) checkLog(unit string, want ...string) {
	m.T.Helper()
	got := strings.Join(strings.Fields(m.Do("cat", "/run/"+unit+".log")), " ")
	if got != strings.Join(want, " ") {
		m.T.Errorf("%s: got %q, want %q", unit, got, want)
	}
}

// What started before prelet is restarted at the first boot, what starts after it is not; a parameter of the kernel is
// set before the kubelet starts. A change of these files leaves the kubelet alone, and a reboot needs nothing.
func TestOtherUnits(t *testing.T) {
	t.Parallel()
	m := reading(t)
	m.checkLog("reader", "start none", "start one")
	m.checkLog("late", "start one")
	if got := strings.TrimSpace(m.Do("cat", "/proc/sys/net/core/somaxconn")); got != "3003" {
		t.Errorf("the kernel's parameter: got %s, want 3003", got)
	}
	if set, kubelet := m.monotonic("systemd-sysctl", "ExecMainStart"), m.monotonic(
		"kubelet",
		"ExecMainStart",
	); set >= kubelet {
		t.Errorf("parameters were set at %s, and the kubelet started at %s; want below %s", set, kubelet, kubelet)
	}
	m.Do("test", "-d", "/var/lib/made-by-one")

	pid := m.property("kubelet", "MainPID")
	m.reads("two", "restart")
	m.Do("prelet", "run")
	m.checkLog("reader", "start none", "start one", "start two")
	m.checkLog("late", "start one", "start two")
	m.reads("three", "reload")
	m.Do("prelet", "run")
	m.checkLog("reader", "start none", "start one", "start two", "reload three")
	if got := m.property("kubelet", "MainPID"); got != pid {
		t.Errorf("the kubelet: got process %s, want %s", got, pid)
	}
	if got := strings.TrimSpace(m.Do("cat", "/proc/sys/net/core/somaxconn")); got != "3005" {
		t.Errorf("the kernel's parameter: got %s, want 3005", got)
	}

	m.Do("prelet", "rollback", "1")
	m.checkLog("late", "start one", "start two", "start three", "start one")
	if got := m.property("kubelet", "MainPID"); got != pid {
		t.Errorf("after a rollback the kubelet: got process %s, want %s", got, pid)
	}
	m.Off()
	m.Boot()
	m.checkLog("reader", "start one")
	m.checkLog("late", "start one")
}

// A unit that fails on its file takes the whole generation back, and runs again on the old one.
func TestOtherUnitFails(t *testing.T) {
	t.Parallel()
	m := reading(t)
	pid := m.property("kubelet", "MainPID")
	m.reads("broken", "restart")
	if r := m.Try("prelet", "run"); r.Exit != 50 || !strings.Contains(r.Errors, "reader.service") {
		t.Errorf("prelet run: got %+v, want 50 and the unit", r)
	}
	if got := m.read("/etc/reader/x.conf"); got != "one\n" {
		t.Errorf("the file: got %q, want %q", got, "one\n")
	}
	if got := m.property("reader", "ActiveState") + " " + m.property("kubelet", "MainPID"); got != "active "+pid {
		t.Errorf("reader and kubelet: got %s, want active %s", got, pid)
	}
	if s := m.status(); s.Held == nil || !s.Gate.Open {
		t.Errorf("status: got %+v, want the plan held and the gate open", s)
	}
}

// Units that were unhealthy before the commit, and one that systemd refuses to restart, do not take a generation back.
func TestOtherUnitNotToBlame(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/systemd/system/loops.service", `[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/sh -c 'sleep 0.3; exit 1'
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
`)
	m.put(
		"/etc/systemd/system/refuses.service",
		"[Unit]\nRefuseManualStop=yes\n[Service]\nExecStart=/bin/sleep "+
			"infinity\n[Install]\nWantedBy=multi-user.target\n",
	)
	if out, err := exec.Command("chroot", m.Root, "systemctl", "enable", "loops", "refuses").
		CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: got %v: %s; want no error", err, out)
	}
	m.Boot()
	m.verdict("good")

	for _, unit := range []string{"loops", "refuses"} {
		m.put("/etc/prelet/other.hcl", fmt.Sprintf(`override {
  stage "write" "kubelet" {
    file "other" {
      path    = "/etc/%[1]s.conf"
      content = "one\n"
      notify  = [stage.restart.other]
    }
  }
}
stage "restart" "other" { unit = "%[1]s.service" }
`, unit))
		if r := m.Try("prelet", "plan"); strings.Contains(r.Out+r.Errors, "unit-refuses") != (unit == "refuses") {
			t.Errorf("%s: plan: got %+v, want a warning of the unit that refuses only", unit, r)
		}
		if r := m.Try("prelet", "run"); r.Exit != 0 {
			t.Errorf("%s: prelet run: got %+v, want 0", unit, r)
		}
		if got := m.read("/etc/" + unit + ".conf"); got != "one\n" {
			t.Errorf("%s: its file: got %q, want %q", unit, got, "one\n")
		}
		if s := m.status(); len(s.Degraded) == 0 && unit == "refuses" {
			t.Errorf("%s: status: got %+v, want it degraded", unit, s)
		}
	}
}

// A socket whose service runs is restarted with it: systemd refuses to start such a socket alone. Where it cannot
// start, both run again on the old file.
func TestOtherSocket(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/systemd/system/x.socket", "[Socket]\nListenStream=/run/x.sock\n[Install]\nWantedBy=sockets.target\n")
	m.put(
		"/etc/systemd/system/x.service",
		"[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
	)
	if out, err := exec.Command("chroot", m.Root, "systemctl", "enable", "x.socket", "x.service").
		CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: got %v: %s; want no error", err, out)
	}
	dropIn := func(lines string) {
		m.put("/etc/prelet/socket.hcl", fmt.Sprintf(`override {
  stage "write" "kubelet" {
    file "socket" {
      path    = "/etc/systemd/system/x.socket.d/10-site.conf"
      content = "[Socket]\n%s\n"
      notify  = [stage.restart.x]
    }
  }
}
stage "restart" "x" { unit = "x.socket" }
`, lines))
	}
	check := func(when, backlog string) {
		t.Helper()
		got := []string{
			m.property("x.socket", "SubState"),
			m.property("x.socket", "Backlog"),
			m.property("x.service", "SubState"),
		}
		if want := []string{"running", backlog, "running"}; !slices.Equal(got, want) {
			t.Errorf("%s: socket, its backlog and its service: got %q, want %q", when, got, want)
		}
	}

	dropIn("Backlog=71")
	m.Boot()
	m.verdict("good")
	check("boot", "71")
	pid := m.property("x.service", "MainPID")
	dropIn("Backlog=72")
	m.Do("prelet", "run")
	check("run", "72")
	if got := m.property("x.service", "MainPID"); got == pid {
		t.Errorf("the service: got process %s, want another one", got)
	}
	dropIn("ListenStream=/proc/none/x.sock")
	if r := m.Try("prelet", "run"); r.Exit != 50 || !strings.Contains(r.Errors, "x.socket") {
		t.Errorf("prelet run: got %+v, want 50 and the socket", r)
	}
	check("rolled back", "72")
}

// A run that is killed after it has published: the next one finds what is owed.
func TestOtherUnitKilled(t *testing.T) {
	t.Parallel()
	m := reading(t)
	pid := m.property("kubelet", "MainPID")
	m.reads("two", "restart")
	h := m.hold(atTheGate, func() bool { return m.journalNow().Phase == "verify" && !m.open() })
	done := m.later("prelet", "run")
	h.reached()
	m.Do("systemctl", "kill", "--signal=SIGKILL", "prelet-apply.service")
	h.release()
	<-done
	m.Within(60*time.Second, "somebody restarts the unit", func() string {
		if got := m.Do("cat", "/run/reader.log"); !strings.HasSuffix(got, "start two\n") {
			return got
		}
		return ""
	})
	m.verdict("good")
	if got := m.property("kubelet", "MainPID"); got != pid {
		t.Errorf("the kubelet: got process %s, want %s", got, pid)
	}
}

// The machine goes down between the publication and the restart: after the boot every unit runs on the new file, and
// nothing is restarted once more.
func TestOtherUnitRebooted(t *testing.T) {
	t.Parallel()
	m := reading(t)
	m.reads("two", "restart")
	h := m.hold(atTheGate, func() bool { return m.journalNow().Phase == "verify" && !m.open() })
	m.later("prelet", "run")
	h.reached()
	m.Kill()
	h.release()

	m.Boot()
	m.verdict("good")
	m.checkLog("reader", "start two")
	m.checkLog("late", "start two")
	if got := m.read("/etc/sysctl.d/90-x.conf"); got != "net.core.somaxconn = 3003\n" {
		t.Errorf("the parameters: got %q", got)
	}
	if got := strings.TrimSpace(m.Do("cat", "/proc/sys/net/core/somaxconn")); got != "3003" {
		t.Errorf("the kernel's parameter: got %s, want 3003", got)
	}
}
