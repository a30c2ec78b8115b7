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
	const page = "docs/explanation/threat-model.md"
	text, err := os.ReadFile(filepath.Join(repository, page))
	if err != nil {
		t.Fatal(err)
	}

	threats, named := 0, 0
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
				if name = strings.Trim(name, "`"); !hasTest(t, m[1], name) {
					t.Errorf("%s:%d: got no test %s in %s, want one", page, i+1, name, m[1])
				}
			}
		}
	}
	if threats < 80 || named < 150 {
		t.Errorf("%s: got %d threats that name %d tests, want 80 and 150 or more", page, threats, named)
	}
}

// hasTest reports whether a folder of the repository has a test function, a fuzz target or a file of this name, or a
// script, as in TestNodes/boots.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()

	folder = filepath.Join(repository, folder)
	isFunction := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
	if !isFunction {
		st, err := os.Stat(filepath.Join(folder, name))
		return err == nil && st.Mode().IsRegular()
	}

	name, script, isScript := strings.Cut(name, "/")
	if isScript {
		found, err := filepath.Glob(filepath.Join(folder, "testdata", "*", script+".txtar"))
		if err != nil || len(found) == 0 {
			return false
		}
	}

	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}

	return false
}
