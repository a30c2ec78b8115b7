package intelnet_test

import (
	"testing"

	"github.com/prelet/prelet/plugins/detectors/intelnet"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func detector() intelnet.Detector { return intelnet.Detector{Version: "1.0.0"} }

func TestMain(m *testing.M)     { detectortest.Main(m, detector()) }
func TestMachines(t *testing.T) { detectortest.Machines(t, detector(), "testdata") }
func TestConforms(t *testing.T) { detectortest.Conform(t, nil, detectortest.Roots(t, "testdata")...) }
