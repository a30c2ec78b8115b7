package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// node24 has, for each action of others, its first version that runs on Node.js 24: GitHub removed Node.js 20 from its
// runners.
var node24 = map[string]int{
	"actions/attest-build-provenance": 4,
	"actions/cache":                   5,
	"actions/checkout":                5,
	"actions/deploy-pages":            5,
	"actions/setup-go":                6,
	"actions/upload-artifact":         6,
	"actions/upload-pages-artifact":   5,
}

// TestWorkflows holds that workflows run actions of others at a commit, because a tag can be moved, in a version that
// GitHub's runners still have, and that each workflow declares what its token may do. So do those of examples, which
// vendors copy.
func TestWorkflows(t *testing.T) {
	const root = "../.."
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d workflows and %v; want some", len(files), err)
	}

	pinned := regexp.MustCompile(`^([\w-]+/[\w/-]+)@[0-9a-f]{40} # v(\d+)\.\d+\.\d+$`)
	copied, err := filepath.Glob(root + "/examples/*/.github/workflows/*.yml")
	if err != nil || len(copied) == 0 {
		t.Fatalf("got %d workflows that vendors copy and %v; want some", len(copied), err)
	}
	for _, file := range append(slices.Concat(files, copied), root+"/action.yml") {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			_, action, isUse := strings.Cut(strings.TrimSpace(line), "uses: ")
			if !isUse {
				continue
			}
			found := pinned.FindStringSubmatch(action)
			if found == nil {
				t.Errorf("%s: got %q; want an action at a commit, with its version in a comment", file, action)
				continue
			}
			major, err := strconv.Atoi(found[2])
			if least, ok := node24[found[1]]; err != nil || !ok || major < least {
				t.Errorf("%s: got %s of version %d; want one that runs on Node.js 24: %d or later", file, found[1], major, least)
			}
		}
		checkPullRequests(t, file, string(text))
		isAction := filepath.Base(file) == "action.yml"
		if !isAction && !strings.Contains(string(text), "\npermissions:\n") {
			t.Errorf("%s has no permissions for all jobs; want them", file)
		}
	}
}

// ofRepository is the condition of a job that others' pull requests do not start.
const ofRepository = "if: github.event_name == 'push' || github.event.pull_request.head.repo.full_name == github.repository"

// checkPullRequests checks what the code of a pull request can do: no checkout leaves the token on the disk, and others'
// code does not run as root.
func checkPullRequests(t *testing.T, file, text string) {
	t.Helper()
	steps := strings.Split(text, "\n      - ")
	for _, step := range steps {
		isCheckout := strings.HasPrefix(step, "uses: actions/checkout@")
		if isCheckout && !strings.Contains(step, "persist-credentials: false") {
			t.Errorf("%s: got a checkout that keeps its credentials; want persist-credentials: false", file)
		}
	}
	if !strings.Contains(text, "\n  pull_request:") {
		return
	}
	_, jobs, _ := strings.Cut(text, "\njobs:")
	for _, job := range regexp.MustCompile(`(?m)^  [\w-]+:$`).Split(jobs, -1) {
		if strings.Contains(job, "sudo ") && !strings.Contains(job, ofRepository) {
			t.Errorf("%s: got a job with sudo for each pull request; want %s", file, ofRepository)
		}
	}
}
