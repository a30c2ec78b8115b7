package boot

import (
	"strings"
	"testing"
	"time"
)

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
	m.Within(time.Minute, "metrics of the first run", func() string {
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

// samples are those of metrics.prom, by name and labels.
func (m *machine) samples() map[string]string {
	m.T.Helper()
	out := map[string]string{}
	for line := range strings.Lines(m.Do("cat", "/run/prelet/metrics.prom")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			out[name] = value
		}
	}
	return out
}
