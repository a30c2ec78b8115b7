package boot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The API server is unreachable at the first boot: the gate stays shut, the kubelet's start is repeated with the
// reason in its status, and the node recovers when the server is reachable.
func TestAwayOnFirstBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.cluster.away()
	m.Start()
	m.Within(30*time.Second, "a failed run", func() string {
		if s := m.status(); s.Exit != 20 || s.Gate.Open {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if n := len(m.starts()); n != 0 {
		t.Errorf("the kubelet was executed %d times; want 0", n)
	}
	const why = "Cannot reach the cluster"
	m.Within(45*time.Second, "systemctl status kubelet shows the reason", func() string {
		if out := m.Try("systemctl", "status", "--no-pager", "kubelet").Out; !strings.Contains(out, why) {
			return out
		}
		return ""
	})
	if out := m.Try("systemctl", "status", "--no-pager", "prelet").Out; !strings.Contains(out, why) {
		t.Errorf("systemctl status prelet:\n%s", out)
	}
	for _, f := range []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/bootstrap-kubelet.conf"} {
		if m.Exists(f) {
			t.Errorf("%s was written", f)
		}
	}
	m.cluster.back()
	m.verdict("good")
	m.well(1)
	if n := len(m.starts()); n != 1 {
		t.Errorf("got %d starts; want 1", n)
	}
}

// TestMetricsWhileAway: systemd repeats prelet.service while the API server is unreachable. Each scrape must show the
// failure, also during a run, and the failed runs must stay countable after the success.
func TestMetricsWhileAway(t *testing.T) {
	t.Parallel()
	const (
		running = `prelet_state{state="running"}`
		failed  = `prelet_last_result{result="failed"}`
		code    = `prelet_error{code="cluster-unreachable"}`
		runs    = "prelet_failed_runs_total"
		success = "prelet_last_success_timestamp_seconds"
	)

	m := newMachine(t)
	m.edit(`retry          = "1s"`, `retry          = "4s"`)
	m.cluster.away()
	m.Start()
	m.Within(30*time.Second, "metrics of the first run", func() string {
		if r := m.Try("test", "-e", "/run/prelet/metrics.prom"); r.Exit != 0 {
			return "no metrics"
		}
		return ""
	})

	seenRunning := false
	m.Within(90*time.Second, "four failed runs", func() string {
		s := m.samples()
		if s[runs] != "0" && (s[failed] != "1" || s[code] != "1") {
			t.Errorf("after %s failed runs: got %s %q and %s %q, want 1", s[runs], failed, s[failed], code, s[code])
		}
		seenRunning = seenRunning || s[running] == "1" && s[runs] != "0"
		if s[runs] == "4" {
			return ""
		}
		return s[runs]
	})
	if !seenRunning {
		t.Errorf("got no scrape during a repeated run, want one")
	}

	m.cluster.back()
	m.Do("systemctl", "restart", "prelet")
	m.verdict("good")
	s := m.samples()
	if s[failed] != "0" || s[code] != "" || s[runs] != "4" || s[success] == "" {
		t.Errorf("after the success: got %v, want 4 failed runs, no error and a last success", s)
	}
}

// An API server that is away when a node boots that has joined: it comes up on the last good answers, and says so.
func TestAwayOnJoinedNode(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	before := m.disk()
	m.cluster.away()
	m.Boot()
	m.running()
	s := m.status()
	if s.State != "degraded" || s.Code != 2 || s.Exit != 0 || s.Generation != 1 || len(s.Degraded) == 0 {
		t.Errorf("status: got %+v; want State \"degraded\", Code 2, Exit 0, Generation 1 and some Degraded", s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
	m.cluster.back()
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("prelet run when it is back: got %+v; want exit 0", r)
	}
	m.well(1)
}

// A typing error must not take a node down at its next reboot.
func TestTypingErrorAtReboot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit("labels = {", "lables = {")
	before := m.disk()
	m.Boot()
	m.running("prelet.service")
	s := m.status()
	if s.Exit != 10 || s.Code != 2 || s.Generation != 1 || !s.Gate.Open || len(s.Degraded) == 0 ||
		!strings.Contains(s.Summary, "/etc/prelet/site.hcl:") {
		t.Errorf(
			"status: got %+v; want Exit 10, Code 2 (degraded), Generation 1, Gate.Open, some Degraded and text with "+
				"\"/etc/prelet/site.hcl:\"",
			s,
		)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	if n := m.property("prelet", "NRestarts"); n != "0" {
		t.Errorf("tried again %s times, and only a person can fix it; want \"0\"", n)
	}
	if out := m.Try("journalctl", "-b", "--no-pager", "-u", "prelet").Out; !strings.Contains(out, "lables") {
		t.Errorf("journalctl -u prelet; want text with \"lables\":\n%s", out)
	}
	m.put("/etc/prelet/site.hcl", m.site)
	m.Do("systemctl", "restart", "prelet")
	m.well(1)
	if n := len(m.starts()); n != 2 {
		t.Errorf("fixing it restarted the kubelet: got %d starts; want 2", n)
	}
}

// The same on a machine that never had a generation: the gate stays shut, with the reason where one looks.
func TestTypingErrorOnFirstBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.edit("labels = {", "lables = {")
	m.Start()
	m.Within(30*time.Second, "a failed run", func() string {
		if s := m.status(); s.Exit != 10 || s.Gate.Open {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.Within(30*time.Second, "systemctl status kubelet shows the reason", func() string {
		if out := m.Try("systemctl", "status", "--no-pager", "kubelet").Out; !strings.Contains(out, "site.hcl:") {
			return out
		}
		return ""
	})
	m.Settle()
	if n := len(m.starts()); n != 0 {
		t.Errorf("the kubelet was executed %d times; want 0", n)
	}
	m.put("/etc/prelet/site.hcl", m.site)
	m.Do("systemctl", "restart", "prelet")
	m.verdict("good")
	m.well(1)
}

// prelet=off on the kernel command line: the node comes up on what is in place.
func TestOff(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(pool, crash)
	// A container has no command line of its own; and the unit's own /proc hides what is mounted over the machine's.
	m.put("/etc/cmdline", "quiet prelet=off\n")
	m.put(
		"/etc/systemd/system/prelet.service.d/50-cmdline.conf",
		"[Service]\nBindReadOnlyPaths=/etc/cmdline:/proc/cmdline\n",
	)
	before := m.disk()
	m.Boot()
	m.running()
	s := m.status()
	if s.Code != 2 || s.Exit != 0 || !s.Gate.Open || !strings.Contains(s.Summary, "prelet=off") {
		t.Errorf("status: got %+v; want Code 2, Exit 0, Gate.Open and text with \"prelet=off\"", s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
}

// The API server becomes unreachable between the commit and the verdict: the plan is not blamed, so it is not rolled
// back, and the next check finds the node healthy.
func TestAwayBeforeTheVerdict(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.patience("10s", "20s") // the cluster is away long before it has been well for long enough
	m.edit(pool, `"example.com/pool" = "b"`)
	m.Start()
	m.Within(30*time.Second, "the kubelet starts", func() string {
		if n := len(m.starts()); n != 2 {
			return fmt.Sprintf("%d starts", n)
		}
		return ""
	})
	m.cluster.away()
	s := m.verdict("unknown")
	if s.Generation != 2 || !s.Gate.Open || s.Held != nil || !m.Exists("/var/lib/prelet/journal.json") {
		t.Errorf("status: got %+v; want Generation 2, Gate.Open and Held nil", s)
	}
	t.Logf("%+v", s)
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
	m.cluster.back()
	if r := m.Try("prelet", "run"); r.Exit != 0 || !strings.Contains(r.Out, "healthy") {
		t.Errorf("prelet run: got %+v; want exit 0 and text with \"healthy\"", r)
	}
	m.well(2)
	if n := len(m.starts()); n != 2 {
		t.Errorf("it was restarted for that: got %d starts; want 2", n)
	}
}
