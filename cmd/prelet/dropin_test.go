package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
)

const (
	siteDropIn = "/etc/systemd/system/kubelet.service.d/99-site.conf"
	tryDropIn  = "/run/systemd/system.control/kubelet.service.d/99-site.conf"
)

// readsDropIn lets systemd read the kubelet's drop-in of the site, when it reads unit files.
func (m *machine) readsDropIn() {
	m.onReload = func() {
		text := m.read(siteDropIn)
		if _, err := os.Lstat(m.root + tryDropIn); err == nil { // it goes before the other
			text = m.read(tryDropIn)
		}
		k := &m.kubelet
		k.NoStart, k.NoStop = strings.Contains(
			text,
			"RefuseManualStart=yes",
		), strings.Contains(
			text,
			"RefuseManualStop=yes",
		)
		k.NeverWith, k.EnvironmentFiles = nil, nil
		if strings.Contains(text, "Conflicts=prelet.service") {
			k.NeverWith = []string{app.BootUnit}
		}
		if !strings.Contains(text, "EnvironmentFile=\n") {
			k.EnvironmentFiles = append(k.EnvironmentFiles, struct {
				Path     string
				Optional bool
			}{m.gate, false})
		}
	}
	m.onReload()
}

func (m *machine) writeDropIn(text string) {
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "d" {
    path    = "`+siteDropIn+`"
    content = <<-EOT
`+text+`
    EOT
  }
}`, 1))
}

// TestDropInThatRefuses finds what refuses the kubelet's unit in a drop-in of the site before the kubelet is stopped.
func TestDropInThatRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"[Unit]\nRefuseManualStart=yes", "[Unit]\nRefuseManualStop=yes", "[Unit]\nConflicts=prelet.service", "[Service]\nEnvironmentFile=",
	} {
		t.Run(line, func(t *testing.T) {
			m := goodNode(t)
			m.readsDropIn()
			m.writeDropIn(line)
			gate, started := m.gateSays(), m.kubelet.Started
			m.want("run", m.as("", "run"), ended{exit: 52, errors: siteDropIn})
			m.wantUntouched(gate, started)

			m.reboot()
			m.onReload()
			run, _ := m.boot()
			m.want("boot", run, ended{exit: 52, errors: siteDropIn})
			if m.kubelet.Active != "active" || m.read(siteDropIn) != "" {
				t.Errorf("the kubelet is %s, the drop-in holds %q; want active and none",
					m.kubelet.Active, m.read(siteDropIn))
			}

			m.writeDropIn("[Service]\nNice=-5")
			m.want("the mended site", m.as("", "run"), ended{})
			if got := m.read(siteDropIn); !strings.Contains(got, "Nice=-5") {
				t.Errorf("the drop-in holds %q", got)
			}
			if _, err := os.Lstat(filepath.Dir(m.root + tryDropIn)); err == nil {
				t.Error("what was tried is still there")
			}
		})
	}
}

// wantUntouched checks that the kubelet runs as before, and that no drop-in is left.
func (m *machine) wantUntouched(gate string, started time.Duration) {
	m.t.Helper()
	if m.read(siteDropIn) != "" || m.gateSays() != gate || m.kubelet.Started != started ||
		m.kubelet.Active != "active" {
		m.t.Errorf("the drop-in holds %q, the gate %q, the kubelet is %s since %s; want none, %q, active since %v",
			m.read(siteDropIn), m.gateSays(), m.kubelet.Active, m.kubelet.Started, gate, started)
	}
	if m.kubelet.NoStart || m.kubelet.NoStop || len(m.kubelet.NeverWith) > 0 || len(m.kubelet.EnvironmentFiles) == 0 {
		m.t.Errorf("systemd still has what was tried: %+v", m.kubelet)
	}
}

// TestDropInThatRefusesGoes removes and changes a drop-in of the site that refuses the kubelet's unit.
func TestDropInThatRefusesGoes(t *testing.T) {
	t.Parallel()
	for name, mended := range map[string]func(m *machine){
		"removed": func(m *machine) { m.put("/etc/prelet/site.hcl", m.site) },
		"changed": func(m *machine) { m.writeDropIn("[Service]\nNice=-5") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.writeDropIn("[Unit]\nRefuseManualStop=yes")
			if run, verify := m.boot(); run.exit != 0 || verify.exit != 0 { // a systemd that does not look
				t.Fatalf("the first boot: %+v, %+v", run, verify)
			}
			m.readsDropIn()
			if !m.kubelet.NoStop {
				t.Fatal("the drop-in is not in force")
			}
			started := m.kubelet.Started
			mended(m)
			m.want("run", m.as("", "run"), ended{})
			if m.kubelet.NoStop || m.kubelet.Active != "active" || m.kubelet.Started == started ||
				m.gateSays() != "PRELET_GENERATION=2" {
				t.Errorf("the kubelet: %+v, the gate: %s", m.kubelet, m.gateSays())
			}
			if _, err := os.Lstat(m.root + tryDropIn); err == nil {
				t.Error("what was tried is still there")
			}
		})
	}
}

// TestTrialOfKilledRun ends what a run that was killed before its commit has tried, also the largest file that a site
// may write.
func TestTrialOfKilledRun(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"small":   "[Unit]\nRefuseManualStop=yes\n",
		"largest": "[Unit]\nRefuseManualStop=yes\n" + strings.Repeat("#", generation.MaxContent-28),
	} {
		t.Run(name, func(t *testing.T) {
			m := goodNode(t)
			m.readsDropIn()
			m.put(
				tryDropIn,
				"# prelet checks this file with systemd before it commits it, and then removes this copy.\n"+text,
			)
			m.onReload()
			m.want("run", m.as("", "run"), ended{})
			if _, err := os.Lstat(m.root + tryDropIn); err == nil || m.kubelet.NoStop {
				t.Errorf("what was tried is still there (%v), or in force (%t)", err, m.kubelet.NoStop)
			}
		})
	}
}

// TestDropInWithFailingPre has a drop-in of the site whose ExecStartPre= fails: the verdict names that command, and the
// file of the generation that brings it.
func TestDropInWithFailingPre(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.readsDropIn()
	m.writeDropIn("[Service]\nExecStartPre=/bin/false")
	m.onStart = func() {
		k := &m.kubelet
		if strings.Contains(m.read(siteDropIn), "/bin/false") {
			k.Active, k.Sub, k.Result, k.MainPID, k.Restarts = "failed", "failed", "exit-code", 0, 5
			k.FailedPre = "ExecStartPre=/bin/false ended with status 1"
			return
		}
		k.FailedPre = ""
	}
	res := m.as("", "run")
	for _, want := range []string{
		"result exit-code: ExecStartPre=/bin/false ended with status 1",
		"this generation changed " + siteDropIn,
	} {
		m.want("run", res, ended{exit: 50, errors: want})
	}
}
