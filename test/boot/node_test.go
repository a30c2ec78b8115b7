package boot

import (
	"encoding/json"
	"fmt"
	"strconv"
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

// wellOn returns the generation on which there is nothing to do, or what there is.
func (m *machine) wellOn() string {
	m.T.Helper()
	s := m.status()
	if s.Code != 0 || s.Exit != 0 || !s.Gate.Open || s.Gate.Generation != s.Generation {
		return fmt.Sprintf("status: %+v", s)
	}
	if health := m.healthy(); health != "yes" {
		return health
	}

	return strconv.Itoa(s.Generation)
}

// well waits until there is nothing to do on a generation: status has another exit until the kubelet has started.
func (m *machine) well(generation int) {
	m.T.Helper()
	m.Within(time.Minute, "all is well", func() string { return compareTexts("well", m.wellOn(), strconv.Itoa(generation)) })
}

// healthy returns yes, or `but UNIT...` with the units that have failed, when the kubelet runs and no verdict is
// awaited; before that it returns what is otherwise.
func (m *machine) healthy() string {
	m.T.Helper()
	if state := m.property("kubelet", "ActiveState"); state != "active" {
		return "the kubelet is " + state
	}
	if journal := m.read("/var/lib/prelet/journal.json"); journal != "" {
		return "a verdict is awaited: " + journal
	}
	health := "yes"
	for line := range strings.Lines(m.Do("systemctl", "--failed", "--no-legend", "--plain")) {
		health = strings.Replace(health, "yes", "but", 1) + " " + strings.Fields(line)[0]
	}

	return health
}

// running waits until the kubelet is up, no verdict is awaited, and no unit has failed but those: prelet's status
// changes a moment before systemd knows how its unit ended.
func (m *machine) running(failed ...string) {
	m.T.Helper()
	want := "yes"
	if len(failed) > 0 {
		want = "but " + strings.Join(failed, " ")
	}
	m.Within(time.Minute, "the kubelet runs", func() string { return compareTexts("healthy", m.healthy(), want) })
}

// heldOn returns the generation in place while the plan of the site is held, with a kubelet that is not one of those
// that become unhealthy; or what is otherwise.
func (m *machine) heldOn() string {
	m.T.Helper()
	s, starts := m.status(), m.starts()
	if last := starts[len(starts)-1]; s.Held == nil || !s.Gate.Open || last.Labels["e2e.prelet.dev/crash"] != "" {
		return fmt.Sprintf("status: %+v, last start: %+v", s, last)
	}

	return strconv.Itoa(s.Generation)
}

// runsOn returns the label with which the kubelet has started, when it is healthy on it; or what is otherwise.
func (m *machine) runsOn() string {
	m.T.Helper()
	if s := m.status(); s.State == "running" {
		return fmt.Sprintf("status: %+v", s)
	}
	if health := m.healthy(); health != "yes" {
		return health
	}
	m.noMixture()
	starts := m.starts()

	return starts[len(starts)-1].Labels["example.com/pool"]
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
