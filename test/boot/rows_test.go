package boot

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Rows 65 to 75 of the matrix of faults, as far as no other file here has them: what systemd answers, when, and what
// that says of the kubelet. Each looks in the journal whether it met what it is about.

// hanging is a machine whose kubelet's unit is waited for, and a site on which it would hang in start.
func hanging(t *testing.T, timeout string, lines ...string) *machine {
	t.Helper()
	m := newMachine(t)
	m.notifying(lines...)
	m.patience("1s", timeout)
	m.Boot()
	m.verdict("good")
	m.edit(pool, `"example.com/pool" = "a", "e2e.prelet.dev/crash" = "hang"`)
	return m
}

// Row 65: a unit that is gone is refused before COMMIT, like one that is masked.
func TestUnitMissing(t *testing.T) {
	t.Parallel()
	m := joined(t)
	const unit = "/usr/lib/systemd/system/kubelet.service"
	text := m.read(unit)
	if err := os.Remove(m.Root + unit); err != nil {
		t.Fatal(err)
	}
	m.Do("systemctl", "daemon-reload")
	m.Do("systemctl", "stop", "kubelet")
	if state := m.property("kubelet", "LoadState"); state != "not-found" {
		t.Fatalf("the unit is %s: nothing is shown; want \"not-found\"", state)
	}
	m.edit(pool, `"example.com/pool" = "b"`)
	before := m.disk()
	if r := m.Try("prelet", "run"); r.Exit != 52 || !strings.Contains(r.Errors, "cannot find kubelet.service") {
		t.Errorf("prelet run: got %+v; want exit 52 and text with \"there is no kubelet.service\"", r)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	m.put(unit, text)
	m.Do("systemctl", "daemon-reload")
	m.Do("systemctl", "start", "kubelet")
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("when it is back: got %+v; want exit 0", r)
	}
	m.well(2)
}

// Row 68, timeout: systemd gives the start's job up (JobTimeoutSec=), and the unit goes on starting. The change is bad.
func TestJobTimeout(t *testing.T) {
	m := hanging(t, "10s", "TimeoutStartSec=120", "[Unit]", "JobTimeoutSec=3")
	r := m.Try("prelet", "run")
	if r.Exit != 50 || !strings.Contains(r.Errors, "activating/start") {
		t.Errorf("prelet run: got %+v; want exit 50 and text with \"activating/start\"", r)
	}
	if job := m.job(2); job != "timeout" {
		t.Errorf("its job was %q; want \"timeout\"", job)
	}
	m.heldOn(3, "prelet-apply.service")
}

// Row 68, canceled: the kubelet is stopped while its start is waited for. The plan is not to blame, so it is neither
// rolled back nor held, and the next start is judged: here it hangs again, and the change is bad.
func TestJobCanceled(t *testing.T) {
	t.Parallel()
	m := hanging(t, "20s", "TimeoutStartSec=120")
	done := make(chan ran)
	go func() { done <- m.Try("prelet", "run") }()
	m.Within(30*time.Second, "it hangs", func() string {
		if text := m.property("kubelet", "StatusText"); text != "hangs on demand" {
			return "StatusText: " + text
		}
		return ""
	})
	m.Do("systemctl", "stop", "kubelet")
	r := <-done
	if job := m.job(2); job != "canceled" {
		t.Errorf("its job was %q; want \"canceled\"", job)
	}
	if s := m.status(); r.Exit != 0 || s.Verdict != "unknown" || s.Held != nil || s.Generation != 2 ||
		!m.Exists("/var/lib/prelet/journal.json") {
		t.Errorf("prelet run: got %+v; status: %+v; want exit 0, Verdict \"unknown\", Held nil and Generation 2", r, s)
	}
	m.Do("systemctl", "start", "--no-block", "kubelet")
	if r := m.Try("prelet", "run"); r.Exit != 50 {
		t.Errorf("prelet run when it is started again: got %+v; want exit 50", r)
	}
	// The stop on the way back ends the start that prelet-verify waited for, so that both judge: both say 50.
	m.Within(
		60*time.Second,
		"both have ended",
		func() string { return trouble("inactive failed", m.property("prelet-verify", "ActiveState")) },
	)
	m.Do("systemctl", "reset-failed", "prelet-verify.service")
	m.heldOn(3, "prelet-apply.service")
}

// Row 68, dependency: the site writes a drop-in by which the kubelet requires a unit that fails. The way back takes
// it away.
func TestJobDependency(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.put("/etc/systemd/system/broken.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n")
	m.Do("systemctl", "daemon-reload")
	m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "drop-in" {
    path    = "/etc/systemd/system/kubelet.service.d/20-site.conf"
    content = "[Unit]\nRequires=broken.service\nAfter=broken.service\n"
  }
}`)
	r := m.Try("prelet", "run")
	if r.Exit != 50 || !strings.Contains(r.Errors, "a unit that it requires failed") {
		t.Errorf("prelet run: got %+v; want exit 50 and text with \"a unit that it requires failed\"", r)
	}
	if job := m.job(2); job != "dependency" {
		t.Errorf("its job was %q; want \"dependency\"", job)
	}
	m.heldOn(3, "broken.service", "prelet-apply.service")
	if m.Exists("/etc/systemd/system/kubelet.service.d/20-site.conf") {
		t.Error("the drop-in is still there")
	}
}

// Row 69, Type=simple: "done" does not imply health. The kubelet dies 3 s after its start, by hand and at a boot.
func TestDoneThenDies(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.patience("5s", "40s")
	m.put("/etc/systemd/system/kubelet.service.d/60-soon.conf", "[Service]\nRestartSec=1\n")
	m.Boot()
	m.verdict("good")
	m.edit(pool, `"example.com/pool" = "a", "e2e.prelet.dev/crash" = "later"`)
	r := m.Try("prelet", "run")
	if r.Exit != 50 || !strings.Contains(r.Errors, "crash loop") || m.job(2) != "done" {
		t.Errorf("prelet run, its job was %q: got %+v; want exit 50, text with \"crash loop\" and job \"done\"",
			m.job(2), r)
	}
	m.heldOn(3, "prelet-apply.service")
	m.Off()
	m.edit(pool, `"example.com/pool" = "b", "e2e.prelet.dev/crash" = "later"`)
	m.Boot()
	m.Within(90*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.Exit != 50 || s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.heldOn(5, "prelet-verify.service")
}

// Row 72: prelet.service, which the kubelet is ordered after, never waits for it: not at a boot, where the kubelet's
// start is queued behind it, and not where somebody restarts prelet.service at run time with a change to apply. It
// has ended before the kubelet's process begins, and prelet-verify waits instead. One that waited would do so for the
// minute that the site gives a verdict.
func TestNeverWaitsForItself(t *testing.T) {
	m := newMachine(t)
	const slow, least = 2 * time.Second, 30 * time.Second
	m.put("/etc/systemd/system/kubelet.service.d/60-slow.conf", "[Service]\nExecStartPre=/bin/sleep 2\n")
	ended := func(when string, generation int) {
		t.Helper()
		m.verdict("good")
		m.well(generation)
		begun, end, kubelet := m.monotonic(
			"prelet",
			"InactiveExit",
		), m.monotonic(
			"prelet",
			"ActiveEnter",
		), m.monotonic(
			"kubelet",
			"ActiveEnter",
		)
		if end == 0 || kubelet-end < slow || end-begun > least {
			t.Errorf("%s: prelet.service took %s, and the kubelet was there %s after it; want end other than 0",
				when, end-begun, kubelet-end)
		}
	}
	m.Boot()
	ended("first boot", 1)
	if asked := m.said("PRELET_STAGE=restart"); len(asked) != 0 {
		t.Errorf("at a boot the kubelet has its job, and nothing was to be asked for: got %q; want no asked", asked)
	}
	m.edit(pool, `"example.com/pool" = "b"`)
	began := time.Now()
	m.Do("systemctl", "restart", "prelet")
	if took := time.Since(began); took > least {
		t.Errorf("systemctl restart prelet took %s; want at most %s", took, least)
	}
	ended("restart", 2)
	if asked := m.said("PRELET_STAGE=restart"); !slices.Contains(asked, "restart: kubelet.service: queued") {
		t.Errorf("what was asked for at run time: got %q; want one of them to be \"restart: kubelet.service: queued\"",
			asked)
	}
}

// Row 73: the end of a start is not reported in time. prelet abandons the wait and continues over the same connection:
// the stop cancels the start, whose end is reported then, without a receiver. A full channel would block all later
// messages of systemd.
func TestJobUnanswered(t *testing.T) {
	m := hanging(t, "6s", "TimeoutStartSec=infinity")
	began := time.Now()
	r := m.Try("prelet", "run")
	took := time.Since(began)
	if r.Exit != 50 || !strings.Contains(r.Errors, "not healthy after 6s") || took > 30*time.Second {
		t.Errorf("prelet run, after %s: got %+v; want exit 50, text with \"not healthy after 6s\" and took at most 30s",
			took, r)
	}
	if job := m.job(2); job != "unanswered" {
		t.Errorf("its job was %q; want \"unanswered\"", job)
	}
	if job := m.job(3); job != "done" {
		t.Errorf("the job of the way back was %q; want \"done\"", job)
	}
	m.heldOn(3, "prelet-apply.service")
	t.Logf("given up and back after %s", took.Round(100*time.Millisecond))
}

// Row 74 at run time: a kubelet that somebody stopped is not started by a change, which awaits its verdict until
// somebody does.
func TestStoppedKubelet(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("systemctl", "stop", "kubelet")
	m.edit(pool, `"example.com/pool" = "b"`)
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("prelet run: got %+v; want exit 0", r)
	}
	s := m.status()
	if s.Verdict != "unknown" || s.Generation != 2 || !s.Gate.Open ||
		!strings.Contains(m.read("/var/lib/prelet/journal.json"), `"verify"`) {
		t.Errorf(
			"status: got %+v, journal %s; want Verdict \"unknown\", Generation 2, Gate.Open and text with `\"verify\"`",
			s,
			m.read("/var/lib/prelet/journal.json"),
		)
	}
	if n := len(m.starts()); n != 1 || m.property("kubelet", "ActiveState") != "inactive" {
		t.Errorf("got %d starts, and it is %s; want 1 and property \"inactive\"",
			n, m.property("kubelet", "ActiveState"))
	}
	m.Do("systemctl", "start", "kubelet")
	m.verdict("good")
	m.well(2)
}

// Row 75: a kubelet that answers /healthz and has not joined is unhealthy: on the first boot, without a generation to
// roll back to, until a site comes with which it joins.
func TestHealthzWithoutKubeconfig(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.patience("1s", "15s")
	m.edit(pool, `"example.com/pool" = "a", "e2e.prelet.dev/crash" = "unjoined"`)
	m.Boot()
	m.Within(60*time.Second, "a bad verdict", func() string {
		if s := m.status(); s.Verdict != "bad" || s.Exit != 50 || s.Held != nil || s.Generation != 1 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if s := m.status(); !strings.Contains(s.Summary, "/etc/kubernetes/kubelet.conf") {
		t.Errorf("the summary does not say what is missing: got %+v; want text with \"/etc/kubernetes/kubelet.conf\"",
			s)
	}
	if well := m.Do(
		"bash",
		"-c",
		`exec 3<>/dev/tcp/127.0.0.1/10248; printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3; cat <&3`,
	); !strings.Contains(
		well,
		"200 OK",
	) {
		t.Errorf("/healthz: got %s; want text with \"200 OK\"", well)
	}
	if n := len(m.starts()); n != 1 || m.property("kubelet", "ActiveState") != "active" ||
		m.Exists("/etc/kubernetes/kubelet.conf") {
		t.Errorf("got %d starts, it is %s; want 1 and property \"active\"", n, m.property("kubelet", "ActiveState"))
	}
	m.put("/etc/prelet/site.hcl", m.site)
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("with the site fixed: got %+v; want exit 0", r)
	}
	m.Do("systemctl", "reset-failed")
	m.well(2)
}

// Row 70: who comes while another run only watches does not wait for its verdict, but takes over: the watcher goes on
// with what is in place now.
func TestTakesOverAVerification(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.site = strings.Replace(m.site, `settle  = "1s"`, `settle  = "15s"`, 1)
	m.edit(pool, `"example.com/pool" = "b"`)
	run := m.later("prelet", "run")
	m.Within(60*time.Second, "it watches generation 2", func() string {
		if j, n := m.journalNow(), len(m.starts()); j.Phase != "verify" || n != 2 {
			return fmt.Sprintf("%d starts, journal %+v", n, j)
		}
		return ""
	})
	m.edit(pool, `"example.com/pool" = "c"`)
	m.Do("systemctl", "restart", "prelet")
	if r := <-run; r.Exit != 0 {
		t.Errorf("prelet run: got %+v; want exit 0", r)
	}
	m.verdict("good")
	m.well(3)
	if starts := m.starts(); len(starts) != 3 || starts[2].Labels["example.com/pool"] != "c" {
		t.Errorf("starts: got %+v; want 3 starts and starts[2].Labels[example.com/pool] \"c\"", starts)
	}
	const over = "verify: another run took over while generation 2 was watched"
	if said := m.said("PRELET_STAGE=verify"); !slices.Contains(said, over) {
		t.Errorf("the journal: got %q; want one of them to be %q", said, over)
	}
}

// Row 70, 75: one that writes is waited for, and not for ever.
func TestLockHeld(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.both("locked1")
	h := m.hold(onDisk, m.staged(2))
	run := m.later("prelet", "run")
	h.reached()
	r := m.Try("prelet", "recover")
	said := strings.Join(strings.Fields(r.Errors), " ")
	if r.Exit != 75 || !strings.Contains(said, "lock") {
		t.Errorf("prelet recover: got %+v; want exit 75 and text with \"lock\"", r)
	}
	// Half a minute, by its own word. The wait begins shortly after its deadline is set.
	_, waited, _ := strings.Cut(said, "; waited ")
	waited, _, _ = strings.Cut(waited, " ")
	if d, err := time.ParseDuration(waited); err != nil || d < 29*time.Second {
		t.Errorf("got a wait of %q for the lock, want 30s: %s", waited, said)
	}
	h.release()
	if r := <-run; r.Exit != 0 {
		t.Errorf("prelet run: got %+v; want exit 0", r)
	}
	m.runsOn("the lock is free", "locked1")
}
