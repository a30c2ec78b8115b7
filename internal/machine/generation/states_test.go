package generation

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestStates walks the table of states at Store.Recover: for each of them a script with its name and its end is played,
// and each script of states.txtar is of a row.
func TestStates(t *testing.T) {
	source := string(osfile.Read(t, "recover.go"))
	var rows, names []string
	for _, row := range regexp.MustCompile(`(?m)^//\t(.*\S) {2,}(\S.*)$`).FindAllStringSubmatch(source, -1) {
		rows = append(rows, row[1]+": "+row[2])
	}
	for _, file := range []string{"states", "mounts", "owners"} {
		text := string(osfile.Read(t, filepath.Join("testdata/scripts", file+".txtar")))
		for _, name := range regexp.MustCompile(`(?m)^-- (.*) --$`).FindAllStringSubmatch(text, -1) {
			names = append(names, name[1])
			if file == "states" && !slices.Contains(rows, name[1]) {
				t.Errorf("%s: got the script %q, want it to be of a row of the table", file, name[1])
			}
		}
	}
	for _, row := range rows {
		if !slices.Contains(names, row) {
			t.Errorf("recover.go: got %q, want a script of this name", row)
		}
	}
	if len(rows) < 20 {
		t.Errorf("got %d states, want 20 or more:\n%s", len(rows), strings.Join(rows, "\n"))
	}
}
