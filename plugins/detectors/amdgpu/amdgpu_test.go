package amdgpu

import (
	"testing"

	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func detector() Detector { return Detector{Version: "1.0.0"} }

func TestMain(m *testing.M)     { detectortest.Main(m, detector()) }
func TestMachines(t *testing.T) { detectortest.Machines(t, detector(), "testdata") }
func TestConforms(t *testing.T) { detectortest.Conform(t, nil, detectortest.Roots(t, "testdata")...) }

func TestTarget(t *testing.T) {
	for gfx, want := range map[uint64]string{90402: "gfx942", 90010: "gfx90a", 90500: "gfx950", 100300: "gfx1030", 110001: "gfx1101", 120001: "gfx1201", 80003: "gfx803", 0: "", 1 << 40: ""} {
		if got := (node{gfx: gfx}).target(); got != want {
			t.Errorf("%d: %q, want %q", gfx, got, want)
		}
	}
}
