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
	r := m.Try("prelet", "run")
	if r.Exit != 50 ||
		!strings.Contains(r.Errors, "Generation 2 was unhealthy and was rolled back; generation 3 has the contents") {
		t.Fatalf(
			"prelet run: got %+v; want exit 50 and text with \"Generation 2 was unhealthy and was rolled back; "+
				"generation 3 has the contents\"",
			r,
		)
	}
	m.heldOn(3, "prelet-apply.service")
	m.Off()
	before, starts := m.disk(), len(m.starts())
	m.Boot()
	m.heldOn(3)
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("the boot after it wrote: got %q; want none", d)
	}
	if n := len(m.starts()); n != starts+1 {
		t.Errorf("the boot after it: %d starts", n-starts)
	}
	m.put("/etc/prelet/site.hcl", m.site)
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("with the site fixed: got %+v; want exit 0", r)
	}
	m.well(3)
}

// heldOn: well on an older generation than the site's.
func (m *machine) heldOn(generation int, failed ...string) {
	m.T.Helper()
	m.running(failed...)
	s := m.status()
	if s.Held == nil || s.Generation != generation || !s.Gate.Open {
		m.T.Errorf("status: %+v, want the plan held and generation %d in place", s, generation)
	}
	if starts := m.starts(); starts[len(starts)-1].Labels["e2e.prelet.dev/crash"] != "" {
		m.T.Errorf("the kubelet runs with the label: got %+v; want empty starts.Labels[e2e.prelet.dev/crash]", starts)
	}
}

// The same, found at a boot: prelet-verify rolls back, without an operator.
func TestBadChangeAtBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(pool, crash)
	m.Boot()
	m.Within(90*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.heldOn(3, "prelet-verify.service")
	if s := m.status(); s.Exit != 50 || s.Code != 1 || s.Verdict != "good" {
		t.Errorf("status: got %+v; want Exit 50, Code 1 and Verdict \"good\"", s)
	}
	m.Off()
	starts := len(m.starts())
	m.Boot()
	m.heldOn(3)
	if s := m.status(); s.Code != 2 || len(m.starts()) != starts+1 {
		t.Errorf("status of the boot after it: got %+v; %d starts; want Code 2 and starts %v",
			s, len(m.starts())-starts, starts+1)
	}
}

// Why the kubelet ended is read from its journal, also inside of prelet-verify's sandbox: it is put back at its first
// death, and the status says it in one sentence.
func TestReasonFromTheJournal(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(pool, `"e2e.prelet.dev/crash" = "swap"`)
	m.Boot()
	m.Within(90*time.Second, "prelet-verify goes back", func() string {
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
		t.Errorf("it died %d times before it was put back; want at most 2", died)
	}
}

// Going back by hand, over a reboot, and letting go of it.
func TestRollbackByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b"`)
	m.Do("prelet", "run")
	if r := m.Try("prelet", "rollback"); r.Exit != 0 {
		t.Fatalf("prelet rollback: got %+v; want exit 0", r)
	}
	m.running()
	last := func() string {
		starts := m.starts()
		return starts[len(starts)-1].Labels["example.com/pool"]
	}
	if s := m.status(); last() != "a" || s.Generation != 3 {
		t.Errorf("runs on %s: got %+v; want last \"a\" and Generation 3", last(), s)
	}
	m.Off()
	before := m.disk()
	m.Boot()
	m.running()
	if s := m.status(); last() != "a" || s.Generation != 3 || s.Code != 2 {
		t.Errorf("after a reboot on %s: got %+v; want last \"a\", Generation 3 and Code 2", last(), s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	m.Do("prelet", "rollback", "--release")
	if r := m.Try("prelet", "run"); r.Exit != 0 || last() != "b" {
		t.Errorf("prelet run after the release: on %s, %+v; want exit 0 and last \"b\"", last(), r)
	}
	m.well(4)
}

// last is the label of the newest start.
func (m *machine) last() string {
	m.T.Helper()
	starts := m.starts()
	return starts[len(starts)-1].Labels["example.com/pool"]
}

// Going back while a plan is held, to a generation by its number and to what was before prelet: what is held stays
// so, nothing is applied over a reboot, and --release lets go of both.
func TestRollbackWithHeldPlan(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	was := map[string]string{
		configFile: "# as before prelet\n" + kubeletConfig,
		flagsFile:  "KUBELET_EXTRA_ARGS=--node-labels=example.com/pool=before\n",
	}
	for path, text := range was {
		m.put(path, text)
	}
	m.Boot()
	m.verdict("good")
	m.edit(pool, `"example.com/pool" = "b"`)
	m.Do("prelet", "run")
	m.edit(pool, crash)
	if r := m.Try("prelet", "run"); r.Exit != 50 { // 3, and back on the contents of 2: 4
		t.Fatalf("a bad change: got %+v; want exit 50", r)
	}
	m.heldOn(4, "prelet-apply.service")
	m.Do("systemctl", "reset-failed")

	if r := m.Try("prelet", "rollback", "1", "--release"); r.Exit != 64 ||
		!strings.Contains(r.Errors, "either a generation or --release") {
		t.Errorf("both at once: got %+v; want exit 64 and text with \"either a generation or --release\"", r)
	}
	if r := m.Try("prelet", "rollback", "1"); r.Exit != 0 || m.last() != "a" {
		t.Errorf("prelet rollback 1: on %s, %+v; want exit 0 and last \"a\"", m.last(), r)
	}
	m.stays(5, "a")
	if r := m.Try("prelet", "rollback", "0"); r.Exit != 0 || m.last() != "before" {
		t.Errorf("prelet rollback 0: on %s, %+v; want exit 0 and last \"before\"", m.last(), r)
	}
	for path, text := range was {
		if got := m.read(path); got != text {
			t.Errorf("got %s is %q, was %q before prelet; want %q", path, got, text, text)
		}
	}
	m.stays(6, "before")
	if text := m.Try("prelet", "history").Out; !strings.Contains(text, "6") {
		t.Errorf("prelet history; want text with \"6\":\n%s", text)
	}

	// The site still has the change that was bad. Released, it is tried again, and is bad again: back to the last
	// good one, which is as before prelet.
	m.Do("prelet", "rollback", "--release")
	starts := len(m.starts())
	if r := m.Try("prelet", "run"); r.Exit != 50 || len(m.starts()) <= starts || m.last() != "before" {
		t.Errorf("prelet run after the release: on %s, %+v; want exit 50, starts above %v and last \"before\"",
			m.last(), r, starts)
	}
	m.heldOn(8, "prelet-apply.service")
	m.Do("systemctl", "reset-failed")
	m.put("/etc/prelet/site.hcl", m.site)
	if r := m.Try("prelet", "run"); r.Exit != 0 || m.last() != "a" {
		t.Errorf("with the site fixed: on %s, %+v; want exit 0 and last \"a\"", m.last(), r)
	}
	if s := m.status(); s.Held != nil || s.State != "ok" {
		t.Errorf("status: got %+v; want Held nil and State \"ok\"", s)
	}
}

// stays: chosen by hand, over a run and a reboot, with nothing written.
func (m *machine) stays(generation int, name string) {
	m.T.Helper()
	m.running()
	if r := m.Try("prelet", "run"); r.Exit != 0 || m.last() != name {
		m.T.Errorf("prelet run: on %s, %+v; want exit 0 and last %s", m.last(), r, name)
	}
	m.Off()
	before := m.disk()
	m.Boot()
	m.running()
	s := m.status()
	if m.last() != name || s.Generation != generation || s.Code != 2 || s.Held == nil ||
		!strings.Contains(s.Held.Why, "is pinned") {
		m.T.Errorf(
			"after a reboot on %s: got %+v; want last %s, Generation %v, Code 2, Held other than nil and text "+
				"with \"is pinned\"",
			m.last(),
			s,
			name,
			generation,
		)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		m.T.Errorf("written: got %q; want none", d)
	}
}

// `prelet run --retry` with a plan that is held, over a reboot: it is tried once more. If the kubelet is unhealthy
// again, the plan is held again; if it is healthy, because the machine was the cause, the plan stays.
func TestRetryOfHeldPlan(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b", "e2e.prelet.dev/crash" = "unless-fixed"`)
	if r := m.Try("prelet", "run"); r.Exit != 50 {
		t.Fatalf("a bad change: got %+v; want exit 50", r)
	}
	m.Off()
	m.Boot()
	m.heldOn(3)
	starts := len(m.starts())
	if r := m.Try("prelet", "run"); r.Exit != 0 || len(m.starts()) != starts ||
		!strings.Contains(r.Out+r.Errors, "--retry") {
		t.Errorf("prelet run while it is held: got %d starts, %+v; want exit 0, starts %v and text with \"--retry\"",
			len(m.starts())-starts, r, starts)
	}
	if r := m.Try("prelet", "run", "--retry"); r.Exit != 50 || len(m.starts()) <= starts {
		t.Errorf("prelet run --retry, still unhealthy: got %+v; want exit 50 and starts above %v", r, starts)
	}
	m.heldOn(5, "prelet-apply.service")
	m.put("/etc/standin/fixed", "")
	if r := m.Try("prelet", "run", "--retry"); r.Exit != 0 || m.last() != "b" {
		t.Errorf("prelet run --retry, fixed: on %s, %+v; want exit 0 and last \"b\"", m.last(), r)
	}
	m.well(6)
	m.Off()
	m.Boot()
	m.well(6)
}
