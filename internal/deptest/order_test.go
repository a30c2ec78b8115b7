package deptest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// groupRow matches a row of the table of packages: a wing, empty where it is that of the row above, and packages of it.
var groupRow = regexp.MustCompile("(?m)^\\| (?:`([a-z/]+)` )?\\| (`[^|]+`) \\| ")

// readSection returns a section of docs/develop/architecture.md.
func readSection(t *testing.T, dir, heading string) string {
	t.Helper()
	page := osfile.Read(t, filepath.Join(dir, "docs/develop/architecture.md"))
	_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")

	return section
}

// readGroups returns the rows of the table of packages in docs/develop/architecture.md, from top to bottom, each with
// folders relative to the module. A row has these and all packages below them; the row of a wing itself only that one.
func readGroups(t *testing.T, dir string) [][]string {
	t.Helper()
	section := readSection(t, dir, "The packages")

	var groups [][]string
	var wing string
	for _, row := range groupRow.FindAllStringSubmatch(section, -1) {
		if row[1] != "" {
			wing = row[1]
		}
		var group []string
		for name := range strings.SplitSeq(row[2], ", ") {
			folder := wing + "/" + strings.Trim(name, "`")
			if filepath.Base(wing) == filepath.Base(folder) {
				folder = wing
			}
			group = append(group, folder)
		}
		groups = append(groups, group)
	}
	if len(groups) == 0 {
		t.Fatal("docs/develop/architecture.md: got no table of packages, want one")
	}

	return groups
}

// apart lists packages outside of the table: they may import anything, and no package of the table imports them.
func apart() []string {
	return strings.Fields(`
		internal/testing/... internal/machine/detector/hostile/... internal/deptest/... examples/... bench/...
		tools/... test/...
	`)
}

// isIn reports whether one of these patterns, relative to the module, matches a package.
func isIn(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return Matches(module+pattern, path)
	})
}

// findGroup returns the row of a package, counted from the top: that of the longest folder; -1 for none.
func findGroup(groups [][]string, path string) int {
	found, longest := -1, 0
	for i, group := range groups {
		for _, folder := range group {
			isWing := slices.Contains([]string{"internal/lab", "internal/machine"}, folder)
			if len(folder) > longest && (Matches(module+folder, path) || !isWing && Matches(module+folder+"/...", path)) {
				found, longest = i, len(folder)
			}
		}
	}

	return found
}

// CheckOrder returns one message for each import of a package in a higher row or of another stage type, and for each
// package that is in no row. A package may import packages of its own row and of the rows below it.
func CheckOrder(g Graph, groups [][]string) []string {
	var broken []string
	for _, p := range g.Own() {
		isPage := slices.Equal(p.GoFiles, []string{"doc.go"})
		if isPage || isIn(apart(), p.ImportPath) {
			continue
		}

		name := strings.TrimPrefix(p.ImportPath, module)
		group := findGroup(groups, p.ImportPath)
		if group < 0 {
			broken = append(broken, name+" is in no row: add it to the table of packages in docs/develop/architecture.md")
			continue
		}
		for _, imported := range p.Imports {
			isOwn := strings.HasPrefix(imported, module)
			isPlugin := Matches(module+"plugins/...", imported) // a module of its own, see rules
			if !isOwn || isPlugin {
				continue
			}
			if why := whyForbidden(groups, group, p.ImportPath, imported); why != "" {
				broken = append(broken, name+" imports "+strings.TrimPrefix(imported, module)+", "+why)
			}
		}
	}

	return broken
}

// whyForbidden returns why a package of a row may not import another package; "" if it may.
func whyForbidden(groups [][]string, group int, path, imported string) string {
	below := findGroup(groups, imported)
	from, to := stageType(path), stageType(imported)
	switch {
	case below < 0 || isIn(apart(), imported):
		return "which is in no row: only packages outside of the table may import it"
	case below < group:
		return "which is in a higher row: move the shared code to a package below both"
	case from != "" && to != "" && from != to:
		return "which is another stage type: a stage gets values of another only by references in the site, because " +
			"a direct import would be a dependency that the graph does not show"
	}

	return ""
}

// stageType returns the stage type that a package belongs to; "" for none.
func stageType(path string) string {
	rest, ok := strings.CutPrefix(path, module+"stages/")
	if !ok || rest == "builtin" {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")

	return name
}
