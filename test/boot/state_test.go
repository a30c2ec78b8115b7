package boot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// policy makes the site plan a policy of the CPU manager, with other changes of the site.
func (m *machine) policy(name string, changes ...string) {
	m.T.Helper()
	m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  kubelet_config {
    patch = {
      cpuManagerPolicy   = "`+name+`"
      reservedSystemCPUs = "0"
    }
  }
}`)
	for i := 0; i < len(changes); i += 2 {
		m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.read("/etc/prelet/site.hcl"), changes[i], changes[i+1]))
	}
}

const cpuState = "/var/lib/kubelet/cpu_manager_state"

// state waits until the kubelet has made it by a policy.
func (m *machine) state(policy string) {
	m.T.Helper()
	if s := m.read(cpuState); !strings.Contains(s, `"`+policy+`"`) {
		m.T.Errorf("the state of the CPU manager: %s, want it made by %s; starts: %+v", s, policy, m.starts())
	}
}

// Another policy of the CPU manager at a boot: the state of the old one goes in the commit, because no pod runs yet.
// Going back by hand has to take the new one along, else the kubelet would end on it: it is refused while pods may
// hold what that lists, with what to do, and that works.
func TestPolicyAtBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.state("none")
	m.Off()
	m.policy("static")
	m.Boot()
	m.verdict("good")
	m.well(2)
	m.state("static")
	before := m.disk()
	for _, line := range [][]string{{"prelet", "rollback"}, {"prelet", "rollback", "0"}} {
		if r := m.Try(
			line...); r.Exit != 40 || !strings.Contains(r.Errors, cpuState) ||
			!strings.Contains(r.Errors, "drain the node, systemctl stop kubelet.service, prelet rollback") {
			t.Errorf(
				"got %q while pods may run: %+v; want exit 40, text with %q and text with \"drain the node, "+
					"systemctl stop kubelet.service, prelet rollback\"",
				line,
				r,
				cpuState,
			)
		}
	}
	after := m.disk()
	delete(before, "/var/lib/prelet") // that somebody chose a generation was written down there, and taken back
	delete(after, "/var/lib/prelet")
	if d := differs(before, after); len(d) > 0 || len(m.starts()) != 2 {
		t.Errorf("written: got %q; starts: %+v; want none and 2 starts", d, m.starts())
	}
	m.Do("systemctl", "stop", "kubelet")
	if r := m.Try("prelet", "rollback"); r.Exit != 0 {
		t.Errorf("prelet rollback with the kubelet stopped: got %+v; want exit 0", r)
	}
	m.Do("systemctl", "start", "kubelet")
	m.Within(30*time.Second, "a verdict", func() string { return m.read("/var/lib/prelet/journal.json") })
	m.Do("systemctl", "reset-failed")
	m.running()
	m.state("none")
	m.Off()
	before = m.disk()
	m.Boot()
	m.running()
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("the boot after it wrote: got %q; want none", d)
	}
	for _, s := range m.starts() {
		if s.Error != "" {
			t.Errorf("a start ended: got %+v; want empty Error", s)
		}
	}
}

// At run time pods may hold what the state lists: it is refused with what to do, and that works, as the next boot does.
func TestPolicyByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.policy("static")
	before := m.disk()
	for _, line := range [][]string{{"prelet", "run"}, {"systemctl", "restart", "prelet"}} {
		if r := m.Try(line...); r.Exit == 0 {
			t.Errorf("%q: got %+v; want exit other than 0", line, r)
		}
		s := m.status()
		if s.Exit != 40 || s.Generation != 1 || !s.Gate.Open || !strings.Contains(s.Summary, cpuState) {
			t.Errorf("%q: status: got %+v; want Exit 40, Generation 1, Gate.Open and text with %q", line, s, cpuState)
		}
	}
	if out := m.Try("journalctl", "-b", "--no-pager", "-u", "prelet-apply").Out; !strings.Contains(
		out,
		"drain the node and reboot it",
	) {
		t.Errorf("the next step is not reported; want text with \"drain the node and reboot it\":\n%s", out)
	}
	if d := differs(before, m.disk()); len(d) > 0 || len(m.starts()) != 1 {
		t.Errorf("written: got %q; starts: %+v; want none and 1 start", d, m.starts())
	}
	m.Do("systemctl", "stop", "kubelet")
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("with the kubelet stopped: got %+v; want exit 0", r)
	}
	m.Do("systemctl", "start", "kubelet")
	m.verdict("good")
	m.state("static")
}

// A kubelet that is unhealthy with another policy of the CPU manager, for another reason: the rollback removes the new
// state as well.
func TestBadPolicyAtBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.policy("static", pool, crash)
	m.Boot()
	m.Within(90*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.heldOn(3, "prelet-verify.service")
	m.state("none")
}
