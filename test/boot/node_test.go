package boot

import (
	"encoding/json"
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

// pool is the label of the site, which edits change.
const pool = `"example.com/pool" = "a"`

// edit changes the site by one replacement.
func (m *machine) edit(old, new string) {
	m.T.Helper()
	if !strings.Contains(m.site, old) {
		m.T.Fatalf("the site has no %q; want text with %q", old, old)
	}
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.site, old, new))
}

// both is a change that can be seen in the flags and in the configuration, so that a mixture shows.
func (m *machine) both(name string) {
	m.T.Helper()
	m.site = strings.NewReplacer(
		"SERVER", m.cluster.URL, "PIN", m.cluster.CAHash(),
		pool, `"example.com/pool" = "`+name+`"`,
		`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  kubelet_config { patch = { clusterDomain = "`+name+`" } }
}`).Replace(site)
	m.put("/etc/prelet/site.hcl", m.site)
}

// patience sets how long the kubelet is watched.
func (m *machine) patience(settle, timeout string) {
	m.T.Helper()
	m.site = strings.NewReplacer(
		`settle  = "1s"`, `settle  = "`+settle+`"`,
		`timeout = "60s"`, `timeout = "`+timeout+`"`).Replace(m.site)
	m.put("/etc/prelet/site.hcl", m.site)
}

// well is how a machine looks on which there is nothing to do.
func (m *machine) well(generation int) {
	m.T.Helper()
	m.Within(time.Minute, "all is well", func() string { // status has another exit until the kubelet has started
		s := m.status()
		if s.Code != 0 || s.Exit != 0 || s.Generation != generation || !s.Gate.Open || s.Gate.Generation != generation {
			return fmt.Sprintf("status: %+v, want all well on generation %d", s, generation)
		}
		return ""
	})
	m.running()
}

// running: the kubelet is up, no verdict is awaited, and no unit failed but those.
func (m *machine) running(failed ...string) {
	m.T.Helper()
	m.Within(time.Minute, "the kubelet runs", func() string {
		if state := m.property("kubelet", "ActiveState"); state != "active" {
			return "it is " + state
		}
		return ""
	})
	m.Within(
		time.Minute,
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

// runsOn: the kubelet runs on this, whole, and nothing is awaited.
func (m *machine) runsOn(when, name string) {
	m.T.Helper()
	m.Within(60*time.Second, when+": well on "+name, func() string {
		starts := m.starts()
		if s, last := m.status(), starts[len(starts)-1]; s.State == "running" ||
			m.Exists("/var/lib/prelet/journal.json") ||
			last.Labels["example.com/pool"] != name {
			return fmt.Sprintf("%+v, last start %+v", s, last)
		}
		return ""
	})
	m.running()
	m.noMixture()
}

// wholeOn: the kubelet runs on this, whole, and prelet finds nothing to do.
func (m *machine) wholeOn(when, name string) {
	m.T.Helper()
	m.runsOn(when, name)
	if starts := m.starts(); starts[len(starts)-1].Domain != name {
		m.T.Errorf("%s: the last start was %+v, want it on %s", when, starts[len(starts)-1], name)
	}
	if r := m.Try("prelet", "verify"); r.Exit != 0 {
		m.T.Errorf("%s: prelet verify: got %+v, want 0", when, r)
	}
}

// noMixture fails for a start of the kubelet on flags of one generation and the configuration of another.
func (m *machine) noMixture() {
	m.T.Helper()
	for _, s := range m.starts() {
		if want := s.Labels["example.com/pool"]; s.Error != "" ||
			s.Domain != want && (s.Domain != "cluster.local" || want != "a") {
			m.T.Errorf("the kubelet started on a mixture: got %+v; want empty Error", s)
		}
	}
}

// said are the messages of this boot's journal with these fields, oldest first.
func (m *machine) said(match ...string) (out []string) {
	m.T.Helper()
	text := m.Do(append([]string{"journalctl", "-b", "--no-pager", "-o", "json"}, match...)...)
	for line := range strings.Lines(text) {
		var e struct {
			Message string `json:"MESSAGE"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			m.T.Fatalf("%q: got %v; want no error", line, err)
		}
		out = append(out, e.Message)
	}
	return out
}

// job is how the job ended by which a generation's kubelet was brought up.
func (m *machine) job(generation int) string {
	m.T.Helper()
	const before = "kubelet.service: "
	result := ""
	for _, s := range m.said("PRELET_STAGE=restart", fmt.Sprintf("PRELET_GENERATION=%d", generation)) {
		if _, r, ok := strings.Cut(s, before); ok {
			result = r
		}
	}
	return result
}

// monotonic is one of a unit's times since the boot.
func (m *machine) monotonic(unit, name string) time.Duration {
	m.T.Helper()
	var us int64
	if _, err := fmt.Sscan(m.property(unit, name+"TimestampMonotonic"), &us); err != nil {
		m.T.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
}

// later runs a command inside while the test goes on.
func (m *machine) later(args ...string) <-chan ran {
	done := make(chan ran, 1)
	go func() { done <- m.Try(args...) }()
	return done
}
