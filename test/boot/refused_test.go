package boot

import (
	"strings"
	"testing"
)

// The root of the running system is not one to write below: the kubelet would read files that change under it.
func TestRootOfTheRunningSystem(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.both("r1")
	m.Do("prelet", "run")
	pid := m.property("kubelet", "MainPID")
	for _, command := range []string{"rollback", "run", "recover"} {
		if r := m.Try("prelet", command, "--root", "/"); r.Exit != 64 ||
			!strings.Contains(r.Errors, "leave --root out") {
			t.Errorf("%s: got %+v; want exit 64 and text with \"leave --root out\"", command, r)
		}
	}
	if m.property("kubelet", "MainPID") != pid || !m.has(configFile, "r1") || !m.open() {
		t.Error("something was changed under the kubelet")
	}
}

// A retry that cannot commit lets go of nothing: the boot after it does not apply what had failed.
func TestRetryRefused(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, crash)
	if r := m.Try("prelet", "run"); r.Exit != 50 {
		t.Fatalf("got %+v; want exit 50", r)
	}
	m.Do("systemctl", "mask", "kubelet")
	held := m.read("/var/lib/prelet/held.json")
	if r := m.Try("prelet", "run", "--retry"); r.Exit != 52 {
		t.Errorf("got %+v; want exit 52", r)
	}
	if got := m.read("/var/lib/prelet/held.json"); got != held || got == "" {
		t.Errorf("held: got %q; want %q", got, held)
	}
	m.Do("systemctl", "unmask", "kubelet")
	m.Off()
	m.Boot()
	m.heldOn(3)
}
