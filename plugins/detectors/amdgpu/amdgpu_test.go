package amdgpu

import (
	"testing"

	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestDetector(t *testing.T) { detectortest.Run(t, New("1.0.0")) }

func TestTarget(t *testing.T) {
	for gfx, want := range map[uint64]string{90402: "gfx942", 90010: "gfx90a", 90500: "gfx950", 100300: "gfx1030", 110001: "gfx1101", 120001: "gfx1201", 80003: "gfx803", 0: "", 1 << 40: ""} {
		if got := (node{gfx: gfx}).target(); got != want {
			t.Errorf("%d: %q, want %q", gfx, got, want)
		}
	}
}
