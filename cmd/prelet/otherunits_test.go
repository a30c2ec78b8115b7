package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/activation"
)

// withChrony is a healthy node with a chrony.service that runs.
func withChrony(t *testing.T) *machine {
	t.Helper()
	m := goodNode(t)
	m.other = activation.Unit{
		Name: "chrony.service", Load: "loaded", Active: "active", Sub: "running", Result: "success", MainPID: 99,
		Since: time.Second, Started: time.Second,
	}
	m.act = func(string) (string, error) {
		m.runChrony()
		return "done", nil
	}

	return m
}

func (m *machine) runChrony() {
	m.other.Active, m.other.Sub, m.other.Result = "active", "running", "success"
	m.other.MainPID++
	m.other.Since, m.other.Started = m.now, m.now
}

func (m *machine) crashChrony(active, sub string) {
	m.other.Active, m.other.Sub, m.other.Result, m.other.MainPID = active, sub, "exit-code", 0
	m.other.Since, m.other.Started = m.now, m.now
}

const (
	chronyConf   = "/etc/chrony.conf"
	chronyDropIn = "/etc/systemd/system/chrony.service.d/10-site.conf"
)

// putChrony writes a site with a file that chrony.service reads.
func (m *machine) putChrony(action, path string) {
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `stage "write" "kubelet" {}`, fmt.Sprintf(`
stage "restart" "chrony" {
  unit   = "chrony.service"
  action = "%s"
}
stage "write" "kubelet" {
  file "chrony" {
    path    = "%s"
    content = "# of the site\n"
    notify  = [stage.restart.chrony]
  }
}`, action, path), 1))
}

// A unit that was unhealthy before the commit, or that somebody stops, is not what a generation is judged by.
func TestUnitNotToBlame(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(m *machine){
		"it waits for its next restart": func(m *machine) {
			m.crashChrony("activating", "auto-restart")
			m.act = func(string) (string, error) { m.crashChrony("activating", "auto-restart"); return "done", nil }
		},
		"it is about to be restarted": func(m *machine) {
			m.crashChrony("activating", "auto-restart-queued")
			m.act = func(string) (string, error) { m.crashChrony("activating", "auto-restart"); return "failed", nil }
		},
		"between two crashes": func(m *machine) {
			m.other.Restarts = 4
			m.other.Since, m.other.Started = m.now-time.Second, m.now-time.Second
			m.act = func(string) (string, error) { m.crashChrony("activating", "auto-restart"); return "done", nil }
		},
		"it gives up": func(m *machine) {
			m.crashChrony("activating", "auto-restart")
			m.act = func(string) (string, error) { m.crashChrony("failed", "failed"); return "failed", nil }
		},
		"failed, and its timer starts it again": func(m *machine) {
			m.crashChrony("failed", "failed")
			m.slept = func(context.Context) { m.crashChrony("failed", "failed") }
		},
		"not to be loaded": func(m *machine) { m.other.Load = "bad-setting" },
		"somebody stops it": func(m *machine) {
			m.act = func(string) (string, error) {
				m.other.Active, m.other.Sub, m.other.MainPID = "inactive", "dead", 0
				return "canceled", nil
			}
		},
		"somebody stops it, and it ends with an error": func(m *machine) {
			m.act = func(string) (string, error) { m.crashChrony("failed", "failed"); return "canceled", nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := withChrony(t)
			m.now += time.Hour
			prepare(m)
			m.putChrony("restart", chronyConf)
			m.want("run", m.as("", "run"), ended{0, "", ""})
			if got := m.read(chronyConf); got == "" {
				t.Error("the file was taken back; want it there")
			}
		})
	}
}

// A unit that was healthy before the commit is: the generation goes back.
func TestUnitToBlame(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(m *machine){
		"its restart fails": func(m *machine) {
			m.act = func(string) (string, error) { m.crashChrony("failed", "failed"); return "failed", nil }
		},
		"it crashes after its restart": func(m *machine) {
			m.act = func(string) (string, error) { m.crashChrony("activating", "auto-restart"); return "done", nil }
		},
		"it crashed long ago, and now again": func(m *machine) {
			m.other.Restarts = 1
			m.act = func(string) (string, error) { m.crashChrony("activating", "auto-restart"); return "done", nil }
		},
		"systemd cannot load it any more": func(m *machine) {
			m.onReload = func() { m.other.Load = "bad-setting" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := withChrony(t)
			m.now += time.Hour
			prepare(m)
			m.putChrony("restart", chronyDropIn)
			m.want("run", m.as("", "run"), ended{50, "", "chrony.service"})
			if m.read(chronyDropIn) != "" {
				t.Error("the file is still there; want it gone again")
			}
		})
	}
}

// What systemd refuses to do with a unit is reported, and nothing is rolled back for it.
func TestUnitRefuses(t *testing.T) {
	t.Parallel()
	m := withChrony(t)
	m.act = func(string) (string, error) {
		return "unanswered", errors.New("systemd refused: it may be requested by dependency only")
	}
	m.putChrony("restart", chronyConf)
	m.want("run", m.as("", "run"), ended{0, "", ""})
	m.want("status", m.as("", "status"), ended{2, "unit-failed: chrony.service: systemd refused", ""})
	if m.read(chronyConf) == "" {
		t.Error("the file was taken back; want it there")
	}
}
