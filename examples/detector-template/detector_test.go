package main

import (
	"testing"

	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func tested() detector { return detector{"1.0.0"} }

// The test's program is the detector too, so that it can be started as prelet does.
func TestMain(m *testing.M) { detectortest.Main(m, tested()) }

// Machines in testdata/*.machine, with the answers that somebody has looked at. DETECTORTEST_UPDATE=1 writes them.
func TestMachines(t *testing.T) { detectortest.Machines(t, tested(), "testdata") }

// What prelet expects of every detector: `prelet detectors check`.
func TestConforms(t *testing.T) { detectortest.Conform(t, nil, detectortest.Roots(t, "testdata")...) }
