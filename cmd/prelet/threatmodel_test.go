package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTests matches a folder of the repository and the tests in it that a page names: `FOLDER`: `TestA`, `b.txtar`.
var namedTests = regexp.MustCompile("`([^`]+)`: (`[^`]+`(?:, `[^`]+`)*)")

// TestThreatModel checks that each test that the threat model names exists, and that each of its threats names a test,
// or has **none** because prelet does **nothing**.
func TestThreatModel(t *testing.T) {
	t.Parallel()
	const page = "docs/develop/threat-model.md"
	text, err := os.ReadFile(filepath.Join(repository, page))
	noError(t, err)

	threats, named, exists := 0, 0, testsOf(t)
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|") // a row has four, and two empty ones at its ends
		isThreat := len(cells) == 6 && cells[1] != " threat " && cells[1] != "---"
		if !isThreat {
			continue
		}
		threats++

		tests := namedTests.FindAllStringSubmatch(cells[3], -1)
		rest := namedTests.ReplaceAllString(cells[3], "")
		isNone := strings.Contains(rest, "**none**") && strings.Contains(cells[2], "**nothing**")
		if strings.Contains(rest, "`") || len(tests) == 0 && !isNone {
			t.Errorf("%s:%d: got the tests %q, want `FOLDER`: `NAME`, or **none** with **nothing**", page, i+1, cells[3])
		}
		for _, m := range tests {
			for _, name := range strings.Split(m[2], ", ") {
				named++
				name = strings.Trim(name, "`")
				st, err := os.Stat(filepath.Join(repository, m[1], name))
				if isFile := err == nil && st.Mode().IsRegular(); !isFile && !exists[m[1]+": "+name] {
					t.Errorf("%s:%d: got no test %s in %s, want one", page, i+1, name, m[1])
				}
			}
		}
	}
	if threats < 80 || named < 150 {
		t.Errorf("%s: got %d threats that name %d tests, want 80 and 150 or more", page, threats, named)
	}
}
