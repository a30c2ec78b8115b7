package main

import (
	"os"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/report"
)

const zoneVariable = `
variable "zone" {
  type    = string
  default = "unknown"
}
`

// zonedNode is a healthy node whose zone a provisioner gave to its first boot.
func zonedNode(t *testing.T, site string) *machine {
	t.Helper()
	m := newMachine(t)
	m.labels = nil
	m.site = site + strings.Replace(m.site, `= "a"`, `= "a", "example.com/zone" = var.zone`, 1)
	m.put("/etc/prelet/site.hcl", m.site)
	m.giveZone("az1")
	run, verify := m.boot()
	m.want("run", run, ended{0, "", ""})
	m.want("verify", verify, ended{0, "", ""})
	return m
}

func (m *machine) giveZone(value string) {
	m.t.Helper()
	if err := os.WriteFile(m.creds+"/prelet.var.zone", []byte(value+"\n"), 0o400); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) takeZone() {
	m.t.Helper()
	if err := os.Remove(m.creds + "/prelet.var.zone"); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) wantZone(value string) {
	m.t.Helper()
	if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "example.com/zone="+value) {
		m.t.Errorf("got flags %s, want the zone %s", flags, value)
	}
}

// TestVariableGone keeps the value of a credential that a provisioner gave to the first boot only, at each later boot and
// in a plan by hand, until a run accepts that it is gone.
func TestVariableGone(t *testing.T) {
	t.Parallel()
	m := zonedNode(t, zoneVariable)
	m.takeZone()

	for range 2 {
		m.reboot()
		run, _ := m.boot()
		m.want("run", run, ended{0, "No changes", `The value of variable "zone" is from the last good generation`})
		m.wantZone("az1")
		if s := m.says(); s.State != report.Degraded {
			t.Errorf("got state %s, want degraded", s.State)
		}
	}
	m.want("plan", m.as("", "plan", "--root", m.root), ended{0, "No changes", "--accept-missing-variables"})
	m.want("explain", m.as("", "explain", "label/example.com/zone", "--root", m.root), ended{0, "stale: from generation 1", ""})

	m.want("run", m.as("", "run", "--accept-missing-variables"), ended{0, "Generation 2 is in place", ""})
	m.wantZone("unknown")
	m.reboot()
	run, _ := m.boot()
	m.want("run", run, ended{0, "No changes", ""})
	if s := m.says(); s.State != report.OK {
		t.Errorf("got state %s, want ok", s.State)
	}
}

// TestVariableGoneAndChange keeps the value also in the next generation, from which a third boot takes it.
func TestVariableGoneAndChange(t *testing.T) {
	t.Parallel()
	m := zonedNode(t, zoneVariable)
	m.takeZone()
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))

	for range 2 {
		m.reboot()
		run, _ := m.boot()
		m.want("run", run, ended{0, "", "from the last good generation"})
		m.wantZone("az1")
	}
}
