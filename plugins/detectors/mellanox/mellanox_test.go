package mellanox_test

import (
	"testing"

	"github.com/prelet/prelet/plugins/detectors/mellanox"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func TestDetector(t *testing.T) { detectortest.Run(t, mellanox.New("1.0.0")) }
