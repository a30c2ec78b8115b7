package main

import (
	"testing"

	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

// The machines of testdata with the answers that somebody has looked at, and what prelet expects of every detector.
func TestDetector(t *testing.T) { detectortest.Run(t, detector) }
