package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
)

// wayBackAwaits is a node that has rolled back from a bad plan, generation 4, to generation 5, for which no verdict
// was reached because the kubelet was stopped.
func wayBackAwaits(t *testing.T) *machine {
	t.Helper()
	m := goodThree(t)
	m.relabel("bad")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "Generation 4 is in place; prelet-verify judges it", ""})
	m.inside = false
	m.units.start()
	sick := m.sick
	m.sick = func() error {
		if err := sick(); err != nil {
			return err
		}
		m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "inactive", "dead", 0

		return nil
	}
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{50, "", "no verdict"})
	m.sick = sick
	if j := m.read("/var/lib/prelet/journal.json"); !strings.Contains(j, `"hold":`) {
		t.Fatalf("journal: got %s, want the plan that it holds", j)
	}

	return m
}

// While the way back awaits its verdict, its plan counts as held, whatever is put in place meanwhile: a file that
// drifted, or a generation that is adopted because the one in place is damaged.
func TestHoldWhileWayBackAwaits(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(m *machine){
		"a file drifted":         func(m *machine) { m.put("/etc/default/kubelet", "drift\n") },
		"it is damaged":          func(m *machine) { m.flip("generations/5", `"unit":"kubelet.service"`) },
		"both it and its source": func(m *machine) { m.flip("generations/5", "pool="); m.flip("generations/3", "pool=") },
		"it is lost":             func(m *machine) { m.lose("generations/5") },
	} {
		for _, boot := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				m := wayBackAwaits(t)
				do(m)
				for range 3 {
					run := ended{}
					if boot {
						m.reboot()
						run, _ = m.boot()
					} else {
						m.units.start()
						run = m.as("", "run")
					}
					m.want("run", run, ended{0, "", ""})
					if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "pool=c") {
						t.Fatalf("flags: got %s, want those of generation 3\n%s%s", flags, run.out, run.errors)
					}
				}
				m.want("status", m.as("", "status"), ended{2, "(good)", ""})
				if held := m.read("/var/lib/prelet/held.json"); !strings.Contains(held, `"plans"`) {
					t.Errorf("held: got %q, want the bad plan", held)
				}
				if m.gateSays() == "" || m.kubelet.Active != "active" {
					t.Errorf("gate %q, kubelet %+v; want it to run", m.gateSays(), m.kubelet)
				}
			})
		}
	}
}

// The journal of a way back is lost before its verdict, on a node that goes on with what came back: it is judged, and
// is what the next bad plan goes back to.
func TestWayBackWithoutJournal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leave func(m *machine)
		files string
	}{
		"chosen by hand": {func(m *machine) {
			m.sick = func() error { m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "inactive", "dead", 0; return nil }
			m.want("rollback", m.as("", "rollback", "2"), ended{0, "", ""})
		}, "pool=b"},
		"the site as it came back": {func(m *machine) {
			m.relabel("bad")
			sick := m.sick
			m.sick = func() error {
				err := sick()
				if err == nil {
					m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "inactive", "dead", 0
				}

				return err
			}
			m.want("the bad plan", m.as("", "run"), ended{50, "", "no verdict"})
			m.relabel("c")
		}, "pool=c"},
	} {
		for _, boot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, boot %v", name, boot), func(t *testing.T) {
				m := goodThree(t)
				sick := m.sick
				c.leave(m)
				m.sick = sick
				m.lose("journal.json")
				if boot {
					m.reboot()
					_, verify := m.boot()
					m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})
				} else {
					m.units.start()
					m.want("run", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})
				}
				disk := m.disk()
				m.want("run again", m.as("", "run"), ended{0, "", ""})
				if !maps.Equal(disk, m.disk()) {
					t.Error("the second run wrote to the disk, want nothing to do")
				}
				m.want("status", m.as("", "status"), ended{m.as("", "status").exit, "(good)", ""})

				m.want(
					"release",
					m.as("", "rollback", "--release"),
					ended{m.as("", "rollback", "--release").exit, "", ""},
				)
				m.relabel("bad")
				m.want("a bad plan", m.as("", "run"), ended{50, "", "was unhealthy and was rolled back"})
				if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, c.files) {
					t.Errorf("flags: got %s, want %s", flags, c.files)
				}
			})
		}
	}
}
