package boot

import ()

const pool, crash = `"example.com/pool" = "a"`, `"e2e.prelet.dev/crash" = "yes"`

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
