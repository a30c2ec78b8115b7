package boot

import (
	"encoding/json"
	"os/exec"
	"strings"

	"github.com/prelet/prelet/internal/machine/detector/hostile"
)

// detector installs a hostile one, and the lock that it would have.
func (m *machine) detector(name string) {
	m.T.Helper()
	const program = "/usr/lib/prelet/detectors/"
	must(m.T, hostile.Build(m.T.Context(), m.Root+program+name))
	sum, _, _ := strings.Cut(m.outside("sha256sum", m.Root+program+name), " ")
	describe, err := json.Marshal(hostile.Describe(name))
	must(m.T, err)
	lock, err := json.Marshal(
		map[string]any{"format_version": 1, "name": name, "sha256": sum, "describe": json.RawMessage(describe)},
	)
	must(m.T, err)
	m.put("/usr/lib/prelet/detectors.lock.d/"+name+".json", string(lock))
}

// landlock lets a container have what nspawn refuses: else no sandbox is tested.
const landlock = "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf"

// outside runs a program of the machine that runs the test.
func (m *machine) outside(name string, args ...string) string {
	m.T.Helper()
	out, err := exec.Command(name, args...).Output()
	must(m.T, err)
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
