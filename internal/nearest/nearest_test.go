package nearest

import "testing"

func TestWord(t *testing.T) {
	known := []string{"labels", "from_detectors", "ip"}
	for word, want := range map[string]string{
		"lables":        "labels",
		"Labels":        "labels",
		"label":         "labels",
		"from_detector": "from_detectors",
		"weight":        "",
		"":              "",
		"x":             "",
	} {
		if got := Word(word, known); got != want {
			t.Errorf("Word(%q): got %q, want %q", word, got, want)
		}
	}
}
