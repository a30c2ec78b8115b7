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
