package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var lintedPath = regexp.MustCompile(`\$\{config-path\}/([a-z/-]+)/\*\*`)

// TestLinterNamesRooms compares the folders in .golangci.yml with the packages: depguard silently ignores a rule for a
// folder that was renamed.
func TestLinterNamesPackages(t *testing.T) {
	dir := root(t)
	text, err := os.ReadFile(filepath.Join(dir, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	g := loadModule(t, dir)
	var linted []string
	for _, m := range lintedPath.FindAllStringSubmatch(string(text), -1) {
		linted = append(linted, m[1])
	}
	if len(linted) == 0 {
		t.Fatal(".golangci.yml names no folder in the form that this test knows")
	}
	planned := []string{"plugins", "cmd/prelet-detect", "stages"} // plugins is a module of its own
	for _, folder := range linted {
		if len(g.Match(module+folder+"/...")) == 0 && !slices.Contains(planned, folder) {
			t.Errorf(".golangci.yml: got rules for %s, want only packages", folder)
		}
	}
	for _, pattern := range pure {
		folder := strings.TrimSuffix(pattern, "/...")
		if !slices.Contains(linted, folder) {
			t.Errorf(".golangci.yml: got no rule for the pure package %s, want one", folder)
		}
	}
	for _, one := range types() {
		if !slices.Contains(linted, "stages/"+one) {
			t.Errorf(".golangci.yml: got no rule that keeps the siblings of stages/%s out, want one", one)
		}
	}
}
