package deptest

import (
	"os"
	"strings"
	"testing"
)

// TestExamplesOfContributing checks that what the examples of CONTRIBUTING.md add is in the named files: lines one
// below the other, unless @@ is between them.
func TestExamplesOfContributing(t *testing.T) {
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	must(t, err)

	isExample, checked := false, 0
	var name, text, hunk string
	for line := range strings.Lines(string(page)) {
		added, isAdded := strings.CutPrefix(line, "+")
		switch path, isFile := strings.CutPrefix(line, "+++ "); {
		case strings.HasPrefix(line, "```"):
			isExample = line == "```diff\n"
		case !isExample:
		case isFile:
			name = strings.TrimSpace(path)
			b, err := os.ReadFile("../../" + name)
			must(t, err)
			text, hunk = string(b), ""
		case line == "@@\n":
			hunk = ""
		case !isAdded:
			t.Errorf("%q: got another line in an example, want lines that are added", line)
		case !strings.Contains("\n"+text, "\n"+hunk+added):
			t.Errorf("%s: got no lines %q, want those of the example in CONTRIBUTING.md", name, hunk+added)
		default:
			hunk += added
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("got %d lines of examples, want 10 or more", checked)
	}
}
