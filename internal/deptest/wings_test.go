package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wingRow matches a row of the picture of the wings: a folder, its question, and the wings that it imports.
var wingRow = regexp.MustCompile(`(?m)^ ([a-z/]+)  +[^→\n]*?(?:→ (.*))?$`)

// wing is a row of the picture of the wings in docs/develop/architecture.md.
type wing struct {
	folder  string
	imports []string // the last parts of folders
}

// readWings returns the rows of the picture, from top to bottom.
func readWings(t *testing.T, dir string) []wing {
	t.Helper()
	section := readSection(t, dir, "The wings")

	var wings []wing
	for _, row := range wingRow.FindAllStringSubmatch(section, -1) {
		wings = append(wings, wing{folder: row[1], imports: strings.Fields(row[2])})
	}
	if len(wings) == 0 {
		t.Fatal("docs/develop/architecture.md: got no picture of the wings, want one")
	}

	return wings
}

// importedWings returns which of some folders a wing imports, by the last parts of their paths, in their order.
func importedWings(g Graph, from string, folders []string) []string {
	found := map[string]bool{}
	for _, p := range g.Match(module + from + "/...") {
		for _, imported := range p.Imports {
			for _, to := range folders {
				isOther := to != from && Matches(module+to+"/...", imported)
				found[to] = found[to] || isOther && !isIn(apart(), p.ImportPath)
			}
		}
	}

	var names []string
	for _, to := range folders {
		if found[to] {
			names = append(names, filepath.Base(to))
		}
	}

	return names
}

// TestWings compares the arrows in the picture of the wings with those of `go list`; none goes up.
func TestWings(t *testing.T) {
	dir := root(t)
	g, wings := loadModule(t, dir), readWings(t, dir)

	var folders []string
	for _, w := range wings {
		folders = append(folders, w.folder)
	}
	folders = append(folders, "plugins")

	for i, w := range wings {
		if got := importedWings(g, w.folder, folders); !slices.Equal(got, w.imports) {
			t.Errorf("%s imports %v, want %v, as the picture in docs/develop/architecture.md has it", w.folder, got, w.imports)
		}
		if up := importedWings(g, w.folder, folders[:i]); len(up) > 0 {
			t.Errorf("%s imports %v, want only wings below it", w.folder, up)
		}
	}
}

// TestPagesOfWings checks that each wing has a page, and that it is short: its imports, what it never does, and where to
// start.
func TestPagesOfWings(t *testing.T) {
	dir := root(t)
	const most = 150 // words

	pages := []string{"internal/testing", "plugins", "editors/prelet-ls"}
	for _, w := range readWings(t, dir) {
		pages = append(pages, w.folder)
	}

	for _, folder := range pages {
		page, err := os.ReadFile(filepath.Join(dir, folder, "doc.go"))
		if err != nil {
			t.Errorf("%s: got no page, want a doc.go", folder)
			continue
		}
		text := string(page)
		if words := len(strings.Fields(strings.ReplaceAll(text, "//", ""))); words > most {
			t.Errorf("%s/doc.go: got %d words, want at most %d", folder, words, most)
		}
		for what, part := range map[string]string{
			"that says what it imports":    " import",
			"that says what it never does": " never ",
			"that says where to start":     "\n// Start with ",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%s/doc.go: got no sentence %s, want one", folder, what)
			}
		}
	}
}
