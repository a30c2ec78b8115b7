package main

import (
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/activation"
)

// Something is mounted over the files of the generation in place while prelet-apply.service is failed, of an earlier
// run that systemd does not repeat: prelet-verify requests a run, once for each reason, and says what it did.
func TestCoveredAfterFailedRun(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	asked := 0
	m.apply, m.applyIs = func() { asked++ }, "failed"
	crash := func(wantAsked int, wantSaid string) {
		t.Helper()
		m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "activating", "auto-restart", 0
		m.units.start()
		m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", wantSaid})
		if asked != wantAsked || m.gateSays() != "" {
			t.Errorf("runs requested: got %d, want %d; gate: got %q, want it shut", asked, wantAsked, m.gateSays())
		}
	}

	const file = "/var/lib/kubelet/config.yaml"
	m.mounts = []activation.Mount{
		{Path: "/var/lib/kubelet", Unit: "var-lib-kubelet.mount", Active: true, State: "active"},
	}
	m.put(file, "old: content of that disk\n")
	crash(1, "prelet-apply.service was requested")
	crash(1, "prelet-apply.service was requested and failed")

	m.applyIs = "activating"
	crash(1, "prelet-apply.service is about to run")

	m.apply = nil // by hand, without systemd
	m.want("run", m.as("", "run"), ended{0, "", ""})
	if m.gateSays() == "" {
		t.Fatal("after a run the gate is shut, want it open")
	}

	m.apply, m.applyIs = func() { asked++ }, "failed"
	m.put(file, "old: content of that disk\n")
	m.mounts = nil
	crash(2, "prelet-apply.service was requested")
	m.mounts = []activation.Mount{{Path: "/var", Unit: "var.mount", Active: true, State: "active"}}
	crash(3, "prelet-apply.service was requested")
	crash(3, "and failed")
}

// The same where the gate was lost and a file was changed.
func TestChangedAfterFailedRun(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	asked := 0
	m.apply, m.applyIs = func() { asked++ }, "failed"
	m.put("/var/lib/kubelet/config.yaml", "changed: by somebody\n")
	m.remove(m.gate)
	for range 3 {
		m.as(app.VerifyUnit, "verify")
	}
	if asked != 1 {
		t.Errorf("runs requested: got %d, want 1", asked)
	}
}

// A mount whose job never ends is waited for once, not before each plan.
func TestMountJobNeverEnds(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.mounts = []activation.Mount{
		{Path: "/var/lib/kubelet", Unit: "var-lib-kubelet.mount", Job: true, State: "activating"},
	}
	m.reboot()
	begun := m.now
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "", ""})
	if got := m.now - begun; got < 90*time.Second || got > 95*time.Second {
		t.Errorf("the run waited for %s, want 90s in all", got)
	}
}
