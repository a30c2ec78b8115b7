package boot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const pool, crash = `"example.com/pool" = "a"`, `"e2e.prelet.dev/crash" = "yes"`

// A change on which the kubelet dies, by hand: the node goes back and is well, the plan is held, also over a reboot,
// until somebody asks for it.
func TestBadChangeByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, crash)
	r := m.try("prelet", "run")
	if r.exit != 50 || !strings.Contains(r.errors, "Generation 2 was ill and was left; generation 3 has the contents") {
		t.Fatalf("prelet run: %+v", r)
	}
	m.heldOn(3, "prelet-apply.service")
	m.off()
	before, starts := m.disk(), len(m.starts())
	m.boot()
	m.heldOn(3)
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("the boot after it wrote: %q", d)
	}
	if n := len(m.starts()); n != starts+1 {
		t.Errorf("the boot after it: %d starts", n-starts)
	}
	m.put("/etc/prelet/site.hcl", m.site)
	if r := m.try("prelet", "run"); r.exit != 0 {
		t.Errorf("with the site mended: %+v", r)
	}
	m.well(3)
}

// heldOn: well on an older generation than the site's.
func (m *machine) heldOn(generation int, failed ...string) {
	m.t.Helper()
	m.running(failed...)
	s := m.status()
	if s.Held == nil || s.Generation != generation || !s.Gate.Open {
		m.t.Errorf("status: %+v, want the plan held and generation %d in place", s, generation)
	}
	if starts := m.starts(); starts[len(starts)-1].Labels["e2e.prelet.dev/crash"] != "" {
		m.t.Errorf("the kubelet runs with the label: %+v", starts)
	}
}

// The same found at a boot: prelet-verify goes back, with nobody there.
func TestBadChangeAtBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.edit(pool, crash)
	m.boot()
	m.within(90*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.heldOn(3, "prelet-verify.service")
	if s := m.status(); s.Exit != 50 || s.Code != 1 || s.Verdict != "good" {
		t.Errorf("status: %+v", s)
	}
	m.off()
	starts := len(m.starts())
	m.boot()
	m.heldOn(3)
	if s := m.status(); s.Code != 2 || len(m.starts()) != starts+1 {
		t.Errorf("status of the boot after it: %+v; %d starts", s, len(m.starts())-starts)
	}
}

// Why the kubelet ended is read from its journal, also inside of prelet-verify's sandbox: it is put back at its first death, and the
// status says it in one sentence.
func TestReasonFromTheJournal(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.edit(pool, `"e2e.prelet.dev/crash" = "swap"`)
	m.boot()
	m.within(90*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.running("prelet-verify.service")
	s := m.status()
	for _, want := range []string{"the kubelet: this machine has swap on", "it ended (activating/auto-restart", "and will each time"} {
		if !strings.Contains(s.Summary, want) {
			t.Errorf("the status does not say %q: %s", want, s.Summary)
		}
	}
	died := 0
	for _, start := range m.starts() {
		if start.Labels["e2e.prelet.dev/crash"] != "" {
			died++
		}
	}
	if died > 2 { // systemd may have started it once more before prelet had read the journal
		t.Errorf("it died %d times before it was put back", died)
	}
}

// Going back by hand, over a reboot, and letting go of it.
func TestRollbackByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b"`)
	m.do("prelet", "run")
	if r := m.try("prelet", "rollback"); r.exit != 0 {
		t.Fatalf("prelet rollback: %+v", r)
	}
	m.running()
	last := func() string {
		starts := m.starts()
		return starts[len(starts)-1].Labels["example.com/pool"]
	}
	if s := m.status(); last() != "a" || s.Generation != 3 {
		t.Errorf("runs on %s: %+v", last(), s)
	}
	m.off()
	before := m.disk()
	m.boot()
	m.running()
	if s := m.status(); last() != "a" || s.Generation != 3 || s.Code != 2 {
		t.Errorf("after a reboot on %s: %+v", last(), s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: %q", d)
	}
	m.do("prelet", "rollback", "--release")
	if r := m.try("prelet", "run"); r.exit != 0 || last() != "b" {
		t.Errorf("prelet run after the release: on %s, %+v", last(), r)
	}
	m.well(4)
}

// last is the label of the newest start.
func (m *machine) last() string {
	m.t.Helper()
	starts := m.starts()
	return starts[len(starts)-1].Labels["example.com/pool"]
}

// Going back while a plan is held, to a generation by its number and to what was before prelet: what is held stays so, nothing is
// applied over a reboot, and --release lets go of both.
func TestRollbackWithHeldPlan(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	was := map[string]string{configFile: "# as before prelet\n" + kubeletConfig, flagsFile: "KUBELET_EXTRA_ARGS=--node-labels=example.com/pool=before\n"}
	for path, text := range was {
		m.put(path, text)
	}
	m.boot()
	m.verdict("good")
	m.edit(pool, `"example.com/pool" = "b"`)
	m.do("prelet", "run")
	m.edit(pool, crash)
	if r := m.try("prelet", "run"); r.exit != 50 { // 3, and back on the contents of 2: 4
		t.Fatalf("a bad change: %+v", r)
	}
	m.heldOn(4, "prelet-apply.service")
	m.do("systemctl", "reset-failed")

	if r := m.try("prelet", "rollback", "1", "--release"); r.exit != 64 || !strings.Contains(r.errors, "either a generation or --release") {
		t.Errorf("both at once: %+v", r)
	}
	if r := m.try("prelet", "rollback", "1"); r.exit != 0 || m.last() != "a" {
		t.Errorf("prelet rollback 1: on %s, %+v", m.last(), r)
	}
	m.stays(5, "a")
	if r := m.try("prelet", "rollback", "0"); r.exit != 0 || m.last() != "before" {
		t.Errorf("prelet rollback 0: on %s, %+v", m.last(), r)
	}
	for path, text := range was {
		if got := m.read(path); got != text {
			t.Errorf("%s is %q, was %q before prelet", path, got, text)
		}
	}
	m.stays(6, "before")
	if text := m.try("prelet", "history").out; !strings.Contains(text, "6") {
		t.Errorf("prelet history:\n%s", text)
	}

	// The site still has the change that was bad. Released, it is tried again, and is bad again: back to the last good one, which
	// is as before prelet.
	m.do("prelet", "rollback", "--release")
	starts := len(m.starts())
	if r := m.try("prelet", "run"); r.exit != 50 || len(m.starts()) <= starts || m.last() != "before" {
		t.Errorf("prelet run after the release: on %s, %+v", m.last(), r)
	}
	m.heldOn(8, "prelet-apply.service")
	m.do("systemctl", "reset-failed")
	m.put("/etc/prelet/site.hcl", m.site)
	if r := m.try("prelet", "run"); r.exit != 0 || m.last() != "a" {
		t.Errorf("with the site mended: on %s, %+v", m.last(), r)
	}
	if s := m.status(); s.Held != nil || s.State != "ok" {
		t.Errorf("status: %+v", s)
	}
}

// stays: chosen by hand, over a run and a reboot, with nothing written.
func (m *machine) stays(generation int, name string) {
	m.t.Helper()
	m.running()
	if r := m.try("prelet", "run"); r.exit != 0 || m.last() != name {
		m.t.Errorf("prelet run: on %s, %+v", m.last(), r)
	}
	m.off()
	before := m.disk()
	m.boot()
	m.running()
	s := m.status()
	if m.last() != name || s.Generation != generation || s.Code != 2 || s.Held == nil || !strings.Contains(s.Held.Why, "by hand") {
		m.t.Errorf("after a reboot on %s: %+v", m.last(), s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		m.t.Errorf("written: %q", d)
	}
}

// `prelet run --retry` with a plan that is held, over a reboot: it is tried once more. Ill again, it is held again; well, because what
// made it ill was the machine's, it stays.
func TestRetryOfHeldPlan(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b", "e2e.prelet.dev/crash" = "unless-mended"`)
	if r := m.try("prelet", "run"); r.exit != 50 {
		t.Fatalf("a bad change: %+v", r)
	}
	m.off()
	m.boot()
	m.heldOn(3)
	starts := len(m.starts())
	if r := m.try("prelet", "run"); r.exit != 0 || len(m.starts()) != starts || !strings.Contains(r.out+r.errors, "--retry") {
		t.Errorf("prelet run while it is held: %d starts, %+v", len(m.starts())-starts, r)
	}
	if r := m.try("prelet", "run", "--retry"); r.exit != 50 || len(m.starts()) <= starts {
		t.Errorf("prelet run --retry, still ill: %+v", r)
	}
	m.heldOn(5, "prelet-apply.service")
	m.put("/etc/standin/mended", "")
	if r := m.try("prelet", "run", "--retry"); r.exit != 0 || m.last() != "b" {
		t.Errorf("prelet run --retry, mended: on %s, %+v", m.last(), r)
	}
	m.well(6)
	m.off()
	m.boot()
	m.well(6)
}
