package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflows holds that workflows run actions of others at a commit, because a tag can be moved, and that each
// workflow declares what its token may do.
func TestWorkflows(t *testing.T) {
	const root = "../.."
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d workflows and %v; want some", len(files), err)
	}

	pinned := regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range append(files, root+"/action.yml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, action, isUse := strings.Cut(strings.TrimSpace(line), "uses: ")
			if isUse && !pinned.MatchString(action) {
				t.Errorf("%s: got %q; want an action at a commit, with its version in a comment", file, action)
			}
		}
		isAction := filepath.Base(file) == "action.yml"
		if !isAction && !strings.Contains(string(text), "\npermissions:\n") {
			t.Errorf("%s has no permissions for all jobs; want them", file)
		}
	}
}
