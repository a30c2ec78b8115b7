package report

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReleasedStatus: the status.json of each released version is read.
func TestReleasedStatus(t *testing.T) {
	versions, err := filepath.Glob("../../../testdata/stability/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("got %d versions, %v; want some", len(versions), err)
	}
	for _, version := range versions {
		path := filepath.Join(version, StatusFile)
		text, err := os.ReadFile(path)
		must(t, err)
		s, err := Decode(text)
		if err != nil || s.Generation != 2 || s.Verdict != "pending" || len(s.Stages) != 8 {
			t.Errorf("%s: got %+v, %v; want generation 2, pending, after 8 stages", path, s, err)
		}
	}
}
