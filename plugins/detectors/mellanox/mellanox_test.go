package mellanox_test

import (
	"testing"

	"github.com/prelet/prelet/plugins/detectors/mellanox"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestMachines(t *testing.T) {
	detectortest.Machines(t, mellanox.Detector{Version: "1.0.0"}, "testdata")
}
