package boot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// joined is a machine that has booted once and is well.
func joined(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.Boot()
	m.verdict("good")
	return m
}

// edit changes the site by one replacement.
func (m *machine) edit(old, new string) {
	m.T.Helper()
	if !strings.Contains(m.site, old) {
		m.T.Fatalf("the site has no %q; want text with %q", old, old)
	}
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.site, old, new))
}

// well is how a machine looks on which there is nothing to do.
func (m *machine) well(generation int) {
	m.T.Helper()
	s := m.status()
	if s.Code != 0 || s.Exit != 0 || s.Generation != generation || !s.Gate.Open || s.Gate.Generation != generation {
		m.T.Errorf("status: %+v, want all well on generation %d", s, generation)
	}
	m.running()
}

// running: the kubelet is up, no verdict is awaited, and no unit failed but those.
func (m *machine) running(failed ...string) {
	m.T.Helper()
	m.Within(20*time.Second, "the kubelet runs", func() string {
		if state := m.property("kubelet", "ActiveState"); state != "active" {
			return "it is " + state
		}
		return ""
	})
	m.Within(
		20*time.Second,
		"the units that have failed",
		func() string { // prelet's status is there a moment before systemd knows how its unit ended
			var units []string
			for line := range strings.Lines(m.Do("systemctl", "--failed", "--no-legend", "--plain")) {
				units = append(units, strings.Fields(line)[0])
			}
			if !slices.Equal(units, failed) {
				return fmt.Sprintf("%q, want %q", units, failed)
			}
			return ""
		},
	)
	if m.Exists("/var/lib/prelet/journal.json") {
		m.T.Errorf("a verdict is still awaited: %s", m.read("/var/lib/prelet/journal.json"))
	}
}
