package boot

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/prelet/prelet/test/nspawn"

	"github.com/prelet/prelet/internal/detector/hostile"
)

// detector installs a hostile one, and the lock that it would have.
func (m *machine) detector(name string) {
	m.T.Helper()
	const program = "/usr/lib/prelet/detectors/"
	if err := hostile.Build(m.T.Context(), m.Root+program+name); err != nil {
		m.T.Fatal(err)
	}
	sum, _, _ := strings.Cut(m.outside("sha256sum", m.Root+program+name), " ")
	describe, err := json.Marshal(hostile.Describe(name))
	if err != nil {
		m.T.Fatal(err)
	}
	lock, err := json.Marshal(
		map[string]any{"format_version": 1, "name": name, "sha256": sum, "describe": json.RawMessage(describe)},
	)
	if err != nil {
		m.T.Fatal(err)
	}
	m.put("/usr/lib/prelet/detectors.lock.d/"+name+".json", string(lock))
}

// landlock lets a container have what nspawn refuses: else no sandbox is tested.
const landlock = "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf"

// TestDetectors boots a node whose detectors are asked: one that answers gives it a label, one that crashes leaves
// the boot degraded, and, once it is required, shuts no gate of a node that has a good generation.
func TestDetectors(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.detector("good")
	m.detector("crash-call")
	site := strings.Replace(
		m.site,
		`labels = { "example.com/pool" = "a" }`,
		`from_detectors = ["`+hostile.Domain+`/*"]`,
		1,
	) +
		"stage \"detect-hw\" \"node\" {}\ndetector \"good\" { required = true }\n"
	m.put("/etc/prelet/site.hcl", site+"detector \"crash-call\" {}\n")
	m.Boot(landlock)
	s := m.verdict("good")
	if len(s.Degraded) != 1 || !strings.Contains(s.Degraded[0].Summary, `"crash-call"`) {
		t.Errorf("degraded: got %+v; want 1 Degraded and text with `\"crash-call\"`", s.Degraded)
	}
	starts := m.starts()
	if len(starts) == 0 || starts[len(starts)-1].Labels[hostile.Domain+"/firmware"] != "1.20" {
		t.Errorf("the kubelet has not the detector's label: got %+v; want some starts and starts.Labels \"1.20\"",
			starts)
	}
	if left := m.Try("pgrep", "-fa", "prelet-detect"); left.Exit == 0 {
		t.Errorf("still there: got %s; want exit other than 0", left.Out)
	}
	m.Off()

	m.put("/etc/prelet/site.hcl", site+"detector \"crash-call\" { required = true }\n")
	m.Boot(landlock)
	m.Within(nspawn.BootTime, "the kubelet runs on what is in place, degraded", func() string {
		if s := m.status(); s.Exit != 31 || !s.Gate.Open {
			return s.Summary
		}
		return ""
	})
	if !strings.Contains(m.Journal(), "assertion failed: table != NULL") {
		t.Errorf("the journal does not say why: got %s; want text with \"assertion failed: table != NULL\"",
			m.Journal())
	}
}

// outside runs a program of the machine that runs the test.
func (m *machine) outside(name string, args ...string) string {
	m.T.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		m.T.Fatal(err)
	}
	return string(out)
}

// detectorResult is the result of one detector, as `prelet detect` shows it.
type detectorResult struct {
	State    string
	Facts    map[string]any
	Warnings []string
	Devices  []struct{ Address string }
}

// detectors asks those of the node's site, under the unit's hardening.
func (m *machine) detectors() map[string]detectorResult {
	m.T.Helper()
	text := m.Do("prelet", "detect", "-o", "json")
	var s struct {
		Facts struct{ Detectors map[string]detectorResult }
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		m.T.Fatalf("got %v: %s; want no error", err, text)
	}
	return s.Facts.Detectors
}
