package main

import (
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/machine"
)

// SIGTERM while the plan is made: nothing is changed, the generation in place stays in charge, a fresh node stays shut.
func TestStoppedBeforeCommit(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		var m *testMachine
		if fresh {
			m = newMachine(t)
		} else {
			m = goodNode(t)
			m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `= "a"`, `= "b"`, 1))
			m.reboot()
		}
		failed := `{"format_version":1,"boot_id":"` + m.bootID() + `","state":"failed","code":"cluster-unreachable","exit":20}`
		noError(t, os.WriteFile(m.run+"/status.json", []byte(failed), 0o600))
		m.self.Restarts = 2
		m.slept = m.terminated
		before := m.disk()
		m.inside = true
		m.want("run", m.as(machine.BootUnit, "run"), ended{52, "", "stopped"})
		if !maps.Equal(before, m.disk()) {
			t.Error("a run that was stopped while it waited wrote to the disk")
		}
	}
}

// The reader of a command's output may close it early (run | head): that must not end a command that writes files.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"run", "rollback", "recover"} {
		m := goodNode(t)
		signal.Reset(syscall.SIGPIPE)
		m.as("", command)
		if !signal.Ignored(syscall.SIGPIPE) {
			t.Errorf("%s ends by SIGPIPE", command)
		}
	}
	signal.Reset(syscall.SIGPIPE)
}
