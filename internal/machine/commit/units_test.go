package commit

import (
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/hostfiles"
)

// TestActivationOfUnits: what does not notify the kubelet's unit does not concern it, a file that goes included.
func TestActivationOfUnits(t *testing.T) {
	p := &evaluate.Plan{
		Changed: evaluate.Changed{
			Restart: evaluate.Restart{Unit: "kubelet.service"},
			Changes: []evaluate.FileChange{
				{File: desired.File{Path: "/etc/ntp"}, Notifies: []string{"ntp.service"}},
				{File: desired.File{Path: "/etc/both"}, Notifies: []string{"kubelet.service", "ntp.service"}},
				{File: desired.File{Path: "/etc/gone"}, Action: "delete"},
			},
			Units: []hostfiles.UnitChange{{
				Unit:  desired.Unit{Stage: "ntp", Unit: "ntp.service", Action: "restart", TimeoutMillis: 3, SettleMillis: 2},
				Files: []string{"/etc/both", "/etc/ntp"},
			}},
		},
	}

	got := buildSpec(ProposalInput{Plan: p})
	if want := []string{"/etc/ntp", "/etc/gone"}; !slices.Equal(got.Others, want) {
		t.Errorf("others: got %q, want %q", got.Others, want)
	}
	if len(got.Units) != 1 || got.Units[0].Unit != "ntp.service" || got.Units[0].TimeoutMillis != 3 ||
		len(got.Units[0].Files) != 2 {
		t.Errorf("units: got %+v, want ntp.service with two files", got.Units)
	}
}
