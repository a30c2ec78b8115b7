package main

import (
	"strings"
	"testing"
)

// rackFromFile is the site of the machine with a label from a file that provisioning delivers.
func (m *machine) rackFromFile() string {
	return strings.Replace(m.site, `"a"`, `trimspace(file("/etc/rack"))`, 1)
}

// What a machine was given is not the fault of its image: a file that is missing or has another text, and a credential.
func TestImageOfAMachineThatWasGivenTheWrong(t *testing.T) {
	t.Parallel()

	stays := ended{0, "The image works: nothing shows that the image is at fault", ""}
	t.Run("a file is missing, and a good generation runs", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.put("/etc/prelet/site.hcl", m.rackFromFile())
		m.put("/etc/rack", "a\n")
		m.boot()
		m.remove(m.root + "/etc/rack")
		m.reboot()
		run, _ := m.boot()
		m.want("run", run, ended{10, "", "/etc/rack"})
		m.want("status", m.as("", "status", "--wait", "--image"), stays)
	})
	t.Run("a file has another text", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.put("/etc/prelet/site.hcl", m.rackFromFile())
		m.put("/etc/rack", "Rack 7 (left)\n")
		run, _ := m.boot()
		m.want("run", run, ended{10, "", "Rack 7 (left)"})
		m.want("status", m.as("", "status", "--wait", "--image"), stays)
	})
	t.Run("a wrong site, and a good generation runs", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.boot()
		m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
		m.reboot()
		run, _ := m.boot()
		m.want("run", run, ended{10, "", "lable"})
		m.want("status", m.as("", "status", "--wait", "--image"),
			ended{0, "The image works: the kubelet may start on a good generation", ""})
	})
	t.Run("a wrong site at the first boot", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
		run, _ := m.boot()
		m.want("run", run, ended{10, "", "lable"})
		m.want("status", m.as("", "status", "--wait", "--image"), ended{1, "The image does not work", ""})
	})
}

// A credential that systemd cannot read was given to the machine; a program that is missing is the fault of the image.
func TestImageWhosePreletDoesNotStart(t *testing.T) {
	t.Parallel()
	for status, want := range map[int32]ended{
		243: {0, "at fault: systemd could not start prelet.service (243", ""},
		203: {1, "The image does not work: systemd could not start prelet", ""},
	} {
		m := newMachine(t)
		m.units.apply = func() {} // on a machine with systemd
		m.self.Active, m.self.Result, m.self.Status = "failed", "exit-code", status
		m.want("status", m.as("", "status", "--image"), want)
	}
}
