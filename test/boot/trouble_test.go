package boot

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// both is a change that can be seen in the flags and in the configuration, so that a mixture shows.
func (m *machine) both(name string) {
	m.T.Helper()
	m.site = strings.NewReplacer("SERVER", m.cluster.URL, "PIN", m.cluster.CAHash(), pool, `"example.com/pool" = "`+name+`"`,
		`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  kubelet_config { patch = { clusterDomain = "`+name+`" } }
}`).
		Replace(site)
	m.put("/etc/prelet/site.hcl", m.site)
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

// What prelet costs a boot, as systemd sees it, for the slowest of some.
func TestBootOverhead(t *testing.T) {
	m := joined(t)
	var worst time.Duration
	for range 5 {
		m.Off()
		m.Boot()
		m.well(1)
		var at struct{ Begin, End, Kubelet int64 }
		b := m.Do(
			"sh",
			"-c",
			`printf '{"begin":%s,"end":%s,"kubelet":%s}' $(systemctl show prelet --value -p InactiveExitTimestampMonotonic) $(systemctl show prelet --value -p ActiveEnterTimestampMonotonic) $(systemctl show kubelet --value -p ActiveEnterTimestampMonotonic)`,
		)
		if err := json.Unmarshal([]byte(b), &at); err != nil {
			t.Fatalf("%s: got %v; want no error", b, err)
		}
		took := time.Duration(at.End-at.Begin) * time.Microsecond
		t.Logf("prelet.service %s, kubelet started %s after it",
			took.Round(time.Millisecond), (time.Duration(at.Kubelet-at.End) * time.Microsecond).Round(time.Millisecond))
		worst = max(worst, took)
	}
	t.Logf("slowest: %s", worst.Round(time.Millisecond))
	if worst <= 0 || worst > 3*time.Second {
		t.Errorf("prelet held a boot with nothing to do for %s; want worst above 0 and worst at most 3s", worst)
	}
}
