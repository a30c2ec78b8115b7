package intelnet_test

import (
	"testing"

	"github.com/prelet/prelet/plugins/detectors/intelnet"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestMachines(t *testing.T) {
	detectortest.Machines(t, intelnet.Detector{Version: "1.0.0"}, "testdata")
}
