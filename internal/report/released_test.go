package report

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReleasedStatus: the status.json of each released version is read.
func TestReleasedStatus(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/stability/*/" + StatusFile)
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d files, %v; want some", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Decode(text)
		if err != nil || s.Generation != 2 || s.Verdict != "pending" || len(s.Stages) != 8 {
			t.Errorf("%s: got %+v, %v; want generation 2, pending, after 8 stages", path, s, err)
		}
	}
}
