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

// TestLinterNamesRooms compares the folders in .golangci.yml with the rooms: a rule for a folder that was renamed says
// nothing any more, and depguard does not mind.
func TestLinterNamesRooms(t *testing.T) {
	dir := root(t)
	text, err := os.ReadFile(filepath.Join(dir, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	g := house(t, dir)
	var linted []string
	for _, m := range lintedPath.FindAllStringSubmatch(string(text), -1) {
		linted = append(linted, m[1])
	}
	if len(linted) == 0 {
		t.Fatal(".golangci.yml names no folder in the form that this test knows")
	}
	planned := []string{"plugins", "cmd/prelet-detect", "stages"} // plugins is a module of its own
	for _, room := range notYetWritten {
		planned = append(planned, strings.TrimSuffix(room, "/..."))
	}
	for _, folder := range linted {
		if len(g.Match(module+folder+"/...")) == 0 && !slices.Contains(planned, folder) {
			t.Errorf(".golangci.yml has rules for %s, which is no room", folder)
		}
	}
	for _, room := range pure {
		folder := strings.TrimSuffix(room, "/...")
		if !slices.Contains(linted, folder) {
			t.Errorf("%s is a pure room, but .golangci.yml has no rule for it", folder)
		}
	}
	for _, one := range types() {
		if !slices.Contains(linted, "stages/"+one) {
			t.Errorf("stages/%s has no rule in .golangci.yml that keeps its siblings out", one)
		}
	}
}
