package texts

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestNearest(t *testing.T) {
	known := []string{"labels", "from_detectors", "ip", "cpu", "gpus", "memory_gib", "model", "modes"}
	for word, want := range table.YAML[map[string]string](t, `
lables: labels
Labels: labels
label: labels
from_detector: from_detectors
weight: ''
gpu: gpus
memory: memory_gib
mem: ''
'': ''
x: ''
`) {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q): got %q, want %q", word, got, want)
		}
	}
}
