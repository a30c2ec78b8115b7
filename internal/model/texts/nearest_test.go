package texts

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"labels", "from_detectors", "ip", "cpu", "gpus", "memory_gib", "model", "modes"}
	for word, want := range map[string]string{
		"lables":        "labels",
		"Labels":        "labels",
		"label":         "labels",
		"from_detector": "from_detectors",
		"weight":        "",
		"gpu":           "gpus",
		"memory":        "memory_gib",
		"mem":           "",
		"":              "",
		"x":             "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q): got %q, want %q", word, got, want)
		}
	}
}
