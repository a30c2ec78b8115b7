package boot

import (
	"maps"
	"testing"
)

func TestParseStoredFiles(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                {},
		"{":               {},
		`{"files":null}`:  {},
		`{"machine":"x"}`: {},
		`{"files":[{"path":"/a","purpose":"state","mode":1},{"path":"/b"}],"x":1}`: {"/a": "state", "/b": ""},
	} {
		got := map[string]string{}
		for path, f := range ParseStoredFiles([]byte(text)) {
			got[path] = f.Purpose
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
