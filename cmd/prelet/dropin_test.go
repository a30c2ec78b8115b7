package main

import (
	"strings"
	"testing"
	"time"
)

const siteDropIn = "/etc/systemd/system/kubelet.service.d/99-site.conf"

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

// TestDropInThatRefuses: a drop-in of the site with which prelet could not stop or start the kubelet is refused before
// the kubelet is stopped.
func TestDropInThatRefuses(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.writeDropIn("[Unit]\nRefuseManualStop=yes")
	gate, started := m.gateSays(), m.kubelet.Started
	m.want("run", m.as("", "run"), ended{exit: 10, errors: siteDropIn})
	m.wantUntouched(gate, started)

	m.reboot()
	run, _ := m.boot()
	m.want("boot", run, ended{exit: 10, errors: siteDropIn})
	if m.kubelet.Active != "active" || m.read(siteDropIn) != "" {
		t.Errorf("got kubelet %s, drop-in %q; want active and none", m.kubelet.Active, m.read(siteDropIn))
	}

	m.writeDropIn("[Service]\nNice=-5")
	m.want("the mended site", m.as("", "run"), ended{})
	if got := m.read(siteDropIn); !strings.Contains(got, "Nice=-5") {
		t.Errorf("got drop-in %q, want the one of the site", got)
	}
}

// TestDropInWithoutGate: a drop-in of the site with which systemd reports no gate is rolled back.
func TestDropInWithoutGate(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	gate := m.kubelet.EnvironmentFiles
	m.onReload = func() {
		m.kubelet.EnvironmentFiles = gate
		if m.read(siteDropIn) != "" {
			m.kubelet.EnvironmentFiles = nil
		}
	}
	m.writeDropIn("[Service]\nNice=-5")
	res := m.as("", "run")
	for _, want := range []string{"would start without waiting for prelet", "this generation changed " + siteDropIn} {
		m.want("run", res, ended{exit: 50, errors: want})
	}
	if m.read(siteDropIn) != "" || m.kubelet.Active != "active" {
		t.Errorf("got drop-in %q, kubelet %s; want none and active", m.read(siteDropIn), m.kubelet.Active)
	}
}

// TestDropInOfUnitWithoutGate: a kubelet's unit that never had the gate is refused before anything is written, also if
// the site changes a drop-in that has nothing to do with it. One that brings the gate is written.
func TestDropInOfUnitWithoutGate(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	inForce := m.kubelet.EnvironmentFiles
	m.kubelet.EnvironmentFiles = nil
	m.put("/usr/lib/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n")
	gate, started := m.gateSays(), m.kubelet.Started
	m.writeDropIn("[Service]\nNice=-5")
	m.want("run", m.as("", "run"), ended{exit: 52, errors: "would start without waiting for prelet"})
	m.wantUntouched(gate, started)

	m.onReload = func() { m.kubelet.EnvironmentFiles = inForce }
	m.writeDropIn("[Service]\nEnvironmentFile=/run/prelet/kubelet.env")
	m.want("a drop-in with the gate", m.as("", "run"), ended{})
}

// TestDropInWithoutOrder: a changed drop-in does not skip the question whether prelet may wait for the kubelet, which is
// too late after the commit.
func TestDropInWithoutOrder(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.noOrder = true
	gate, started := m.gateSays(), m.kubelet.Started
	m.writeDropIn("[Service]\nNice=-5")
	m.want("run", m.as("", "run"), ended{exit: 52, errors: "looking at the order of kubelet.service"})
	m.wantUntouched(gate, started)
}

// wantUntouched checks that the kubelet runs as before, and that no drop-in is left.
func (m *machine) wantUntouched(gate string, started time.Duration) {
	m.t.Helper()
	if m.read(siteDropIn) != "" || m.gateSays() != gate || m.kubelet.Started != started ||
		m.kubelet.Active != "active" {
		m.t.Errorf("the drop-in holds %q, the gate %q, the kubelet is %s since %s; want none, %q, active since %v",
			m.read(siteDropIn), m.gateSays(), m.kubelet.Active, m.kubelet.Started, gate, started)
	}
}

// TestDropInWithFailingPre has a drop-in of the site whose ExecStartPre= fails: the verdict names that command, and the
// file of the generation that brings it.
func TestDropInWithFailingPre(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
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

// TestDropInOfUnitThatCannotStart: a changed drop-in does not end that the kubelet is masked or missing, and the plan is
// not blamed for it.
func TestDropInOfUnitThatCannotStart(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]string{"masked": "systemctl unmask", "not-found": "cannot find kubelet.service"} {
		t.Run(load, func(t *testing.T) {
			t.Parallel()
			m := goodNode(t)
			m.kubelet.Load = load
			m.writeDropIn("[Service]\nNice=-5")
			m.want("run", m.as("", "run"), ended{exit: 52, errors: want})
			if got := m.read(siteDropIn); got != "" {
				t.Errorf("got drop-in %q, want none", got)
			}
		})
	}
}

// TestBadDropInThatRefusesStop: a drop-in whose text does not show that systemd refuses to stop the kubelet, which is
// unhealthy with it, stays with the command that helps, and the next boot rolls it back.
func TestBadDropInThatRefusesStop(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.onReload = func() { m.kubelet.NoStop = m.read(siteDropIn) != "" }
	m.onStart = func() {
		if k := &m.kubelet; m.read(siteDropIn) != "" {
			k.Active, k.Sub, k.Result, k.MainPID, k.Restarts = "activating", "auto-restart", "exit-code", 0, 5
		}
	}
	m.writeDropIn("[Service]\nNice=-5")
	m.want("run", m.as("", "run"), ended{exit: 50, errors: "paste RefuseManualStop=no"})

	m.reboot()
	m.boot()
	if m.read(siteDropIn) != "" || m.kubelet.Active != "active" {
		t.Errorf("got drop-in %q, kubelet %s after a boot; want none and active", m.read(siteDropIn), m.kubelet.Active)
	}
}
