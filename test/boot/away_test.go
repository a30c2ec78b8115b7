package boot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// An API server that is away at the first boot: the gate stays shut, the kubelet is tried again and says why it waits,
// and the node mends itself when the server comes.
func TestAwayOnFirstBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.cluster.away()
	m.start()
	m.within(30*time.Second, "a failed run", func() string {
		if s := m.status(); s.Exit != 20 || s.Gate.Open {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if n := len(m.starts()); n != 0 {
		t.Errorf("the kubelet was executed %d times", n)
	}
	const why = "Cannot reach the cluster"
	m.within(45*time.Second, "systemctl status kubelet tells the reason", func() string {
		if out := m.try("systemctl", "status", "--no-pager", "kubelet").out; !strings.Contains(out, why) {
			return out
		}
		return ""
	})
	if out := m.try("systemctl", "status", "--no-pager", "prelet").out; !strings.Contains(out, why) {
		t.Errorf("systemctl status prelet:\n%s", out)
	}
	for _, f := range []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/bootstrap-kubelet.conf"} {
		if m.exists(f) {
			t.Errorf("%s was written", f)
		}
	}
	m.cluster.back()
	m.verdict("good")
	m.well(1)
	if n := len(m.starts()); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// An API server that is away when a node boots that has joined: it comes up on the last good answers, and says so.
func TestAwayOnJoinedNode(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	before := m.disk()
	m.cluster.away()
	m.boot()
	m.running()
	s := m.status()
	if s.State != "degraded" || s.Code != 2 || s.Exit != 0 || s.Generation != 1 || len(s.Degraded) == 0 {
		t.Errorf("status: %+v", s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: %q", d)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("%d starts", n)
	}
	m.cluster.back()
	if r := m.try("prelet", "run"); r.exit != 0 {
		t.Errorf("prelet run when it is back: %+v", r)
	}
	m.well(1)
}

// A typing error must not take a node down at its next reboot.
func TestTypingErrorAtReboot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.edit("labels = {", "lables = {")
	before := m.disk()
	m.boot()
	m.running("prelet.service")
	s := m.status()
	if s.Exit != 10 || s.Code != 1 || s.Generation != 1 || !s.Gate.Open || len(s.Degraded) == 0 || !strings.Contains(s.Summary, "/etc/prelet/site.hcl:") {
		t.Errorf("status: %+v", s)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("%d starts", n)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: %q", d)
	}
	if n := m.property("prelet", "NRestarts"); n != "0" {
		t.Errorf("tried again %s times, and only a person can mend it", n)
	}
	if out := m.try("journalctl", "-b", "--no-pager", "-u", "prelet").out; !strings.Contains(out, "lables") {
		t.Errorf("journalctl -u prelet:\n%s", out)
	}
	m.put("/etc/prelet/site.hcl", m.site)
	m.do("systemctl", "restart", "prelet")
	m.well(1)
	if n := len(m.starts()); n != 2 {
		t.Errorf("mending it restarted the kubelet: %d starts", n)
	}
}

// The same on a machine that never had a generation: the gate stays shut, with the reason where one looks.
func TestTypingErrorOnFirstBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.edit("labels = {", "lables = {")
	m.start()
	m.within(30*time.Second, "a failed run", func() string {
		if s := m.status(); s.Exit != 10 || s.Gate.Open {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.within(30*time.Second, "systemctl status kubelet tells the reason", func() string {
		if out := m.try("systemctl", "status", "--no-pager", "kubelet").out; !strings.Contains(out, "site.hcl:") {
			return out
		}
		return ""
	})
	m.settled()
	if n := len(m.starts()); n != 0 {
		t.Errorf("the kubelet was executed %d times", n)
	}
	m.put("/etc/prelet/site.hcl", m.site)
	m.do("systemctl", "restart", "prelet")
	m.verdict("good")
	m.well(1)
}

// prelet=off on the kernel command line: the node comes up on what is in place.
func TestOff(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.edit(pool, crash)
	// A container has no command line of its own; and the unit's own /proc hides what is mounted over the machine's.
	m.put("/etc/cmdline", "quiet prelet=off\n")
	m.put("/etc/systemd/system/prelet.service.d/50-cmdline.conf", "[Service]\nBindReadOnlyPaths=/etc/cmdline:/proc/cmdline\n")
	before := m.disk()
	m.boot()
	m.running()
	s := m.status()
	if s.Code != 2 || s.Exit != 0 || !s.Gate.Open || !strings.Contains(s.Summary, "prelet=off") {
		t.Errorf("status: %+v", s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: %q", d)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("%d starts", n)
	}
}

// An API server that goes away between the commit and the verdict: nobody is to blame, so nothing is undone, and whoever
// looks next, when it is back, finds the node well.
func TestAwayBeforeTheVerdict(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.patience("10s", "20s") // the cluster is away long before it has been well for long enough
	m.edit(pool, `"example.com/pool" = "b"`)
	m.start()
	m.within(30*time.Second, "the kubelet starts", func() string {
		if n := len(m.starts()); n != 2 {
			return fmt.Sprintf("%d starts", n)
		}
		return ""
	})
	m.cluster.away()
	s := m.verdict("unknown")
	if s.Generation != 2 || !s.Gate.Open || s.Held != nil || !m.exists("/var/lib/prelet/journal.json") {
		t.Errorf("status: %+v", s)
	}
	t.Logf("%+v", s)
	if n := len(m.starts()); n != 2 {
		t.Errorf("%d starts", n)
	}
	m.cluster.back()
	if r := m.try("prelet", "run"); r.exit != 0 || !strings.Contains(r.out, "healthy") {
		t.Errorf("prelet run: %+v", r)
	}
	m.well(2)
	if n := len(m.starts()); n != 2 {
		t.Errorf("it was restarted for that: %d starts", n)
	}
}
