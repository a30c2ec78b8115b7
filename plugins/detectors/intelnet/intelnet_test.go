package intelnet_test

import (
	"testing"

	"github.com/prelet/prelet/plugins/detectors/intelnet"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestDetector(t *testing.T) { detectortest.Run(t, intelnet.New("1.0.0")) }
