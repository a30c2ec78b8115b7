package unit_test

import (
	"testing"

	"github.com/prelet/prelet/internal/systemd/unit"
)

func TestRequires(t *testing.T) {
	const gate = "/run/prelet/kubelet.env"
	for name, tc := range map[string]struct {
		files []unit.EnvironmentFile
		want  bool
	}{
		"the package's drop-in is in force":        {[]unit.EnvironmentFile{{Path: "/var/lib/kubelet/kubeadm-flags.env", Optional: true}, {Path: gate}}, true},
		"a later drop-in cleared the list":         {nil, false},
		"a later drop-in brought it back as \"-\"": {[]unit.EnvironmentFile{{Path: gate, Optional: true}}, false},
		"another file": {[]unit.EnvironmentFile{{Path: gate + ".bak"}}, false},
	} {
		if got := (unit.State{EnvironmentFiles: tc.files}).Requires(gate); got != tc.want {
			t.Errorf("%s: Requires = %v, want %v", name, got, tc.want)
		}
	}
}

func TestQuestionsAboutAState(t *testing.T) {
	for name, tc := range map[string]struct {
		state                    unit.State
		waits, wanted, mayBeLive bool
	}{
		"boot, job queued":           {unit.State{Active: unit.Inactive, Job: 7}, false, true, false},
		"disabled, nobody asked":     {unit.State{Active: unit.Inactive}, false, false, false},
		"being stopped by somebody":  {unit.State{Active: unit.Deactivating}, false, false, true},
		"runs":                       {unit.State{Active: unit.Active, Sub: "running"}, false, true, true},
		"waits at the shut gate":     {unit.State{Active: unit.Activating, Sub: unit.AutoRestart, Result: unit.Resources}, true, true, true},
		"failed, no automatic start": {unit.State{Active: unit.Failed}, false, true, false},
		"starting":                   {unit.State{Active: unit.Activating, Sub: "start"}, false, true, true},
	} {
		if got := tc.state.WaitsToRestart(); got != tc.waits {
			t.Errorf("%s: WaitsToRestart = %v", name, got)
		}
		if got := tc.state.Wanted(); got != tc.wanted {
			t.Errorf("%s: Wanted = %v", name, got)
		}
		if got := tc.state.Running(); got != tc.mayBeLive {
			t.Errorf("%s: Running = %v", name, got)
		}
	}
}
