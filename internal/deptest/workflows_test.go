package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWorkflows holds that workflows run actions of others at a commit, because a tag can be moved, and that each
// workflow declares what its token may do. So do those of examples, which vendors copy.
func TestWorkflows(t *testing.T) {
	const root = "../.."
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d workflows and %v; want some", len(files), err)
	}

	pinned := regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	copied, err := filepath.Glob(root + "/examples/*/.github/workflows/*.yml")
	if err != nil || len(copied) == 0 {
		t.Fatalf("got %d workflows that vendors copy and %v; want some", len(copied), err)
	}
	for _, file := range append(slices.Concat(files, copied), root+"/action.yml") {
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
