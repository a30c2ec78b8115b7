package boot

import (
	"encoding/json"
	"fmt"
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

// A kubelet that is unhealthy with the old generation too: the plan is not to blame, and is not held; status reports
// that the rollback did not help.
func TestRollbackFails(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(pool, `"example.com/pool" = "b"`)
	m.put("/etc/standin/always", "5") // whatever it is started on
	m.Boot()
	m.Within(90*time.Second, "rollback failed", func() string {
		if s := m.status(); s.Exit != 51 || s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	s := m.status()
	if s.Held != nil || s.Code != 1 {
		t.Errorf("status: got %+v; want Held nil and Code 1", s)
	}
	t.Logf("%+v", s)
	m.Do("rm", "/etc/standin/always")
	m.Do("systemctl", "reset-failed")
	r := m.Try("prelet", "run")
	if r.Exit != 0 {
		t.Fatalf("prelet run when the machine is fixed: got %+v; want exit 0", r)
	}
	m.Within(60*time.Second, "well on the site", func() string {
		starts := m.starts()
		if s, last := m.status(), starts[len(starts)-1]; s.State == "running" ||
			last.Labels["example.com/pool"] != "b" {
			return fmt.Sprintf("%+v, last start %+v", s, last)
		}
		return ""
	})
	m.running()
}

// A bad plan over three reboots: tried once, held at each, until the site is fixed.
func TestHeldOverThreeReboots(t *testing.T) {
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
	for reboot := range 3 {
		m.Off()
		before, starts := m.disk(), len(m.starts())
		m.Boot()
		m.heldOn(3)
		if d := differs(before, m.disk()); len(d) > 0 || len(m.starts()) != starts+1 {
			t.Errorf("reboot %d: written %q, %d starts; want none and starts %v",
				reboot+1, d, len(m.starts())-starts, starts+1)
		}
		if text := m.Try("prelet", "status").Out; !strings.Contains(text, "held") ||
			!strings.Contains(text, "--retry") {
			t.Errorf(
				"reboot %d: status contains neither that the plan is held nor how to try it; want text with "+
					"\"held\" and text with \"--retry\":\n%s",
				reboot+1,
				text,
			)
		}
	}
	m.put("/etc/prelet/site.hcl", m.site)
	m.Off()
	m.Boot()
	m.well(3)
}

// systemd does not answer: nothing is written, 52, and it says so. When it is back, the next run applies the site.
func TestNoBus(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b"`)
	before := m.disk()
	m.Do("sh", "-c", "mv /run/systemd/private /run/systemd/private.gone; mv /run/dbus/system_bus_socket /run/dbus/gone")
	r := m.Try("prelet", "run")
	m.Do("sh", "-c", "mv /run/systemd/private.gone /run/systemd/private; mv /run/dbus/gone /run/dbus/system_bus_socket")
	if r.Exit != 52 || !strings.Contains(r.Errors, "systemd") {
		t.Errorf("prelet run: got %+v; want exit 52 and text with \"systemd\"", r)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	if n := len(m.starts()); n != 1 {
		t.Errorf("got %d starts; want 1", n)
	}
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("when it is back: got %+v; want exit 0", r)
	}
	m.well(2)
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
