package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// groupRow matches a row of the table of packages that begins a group.
var groupRow = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| ")

// readGroups returns the groups of the table of packages in docs/develop/architecture.md, from top to bottom: folders relative
// to the module, each with all packages below it.
func readGroups(t *testing.T, dir string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, "docs/develop/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The packages\n")
	section, _, _ = strings.Cut(section, "\n## ")

	var groups []string
	for _, row := range groupRow.FindAllStringSubmatch(section, -1) {
		groups = append(groups, row[1])
	}
	if len(groups) == 0 {
		t.Fatal("docs/develop/architecture.md: got no table with groups of packages, want one")
	}

	return groups
}

// apart lists packages outside of the groups: they may import anything, and no package of a group imports them.
func apart() []string {
	return []string{
		"internal/demo/...",
		"internal/detector/hostile/...",
		"internal/scripttest/...",
		"internal/sample/...",
		"internal/canary/...",
		"internal/deptest/...",
		"examples/...",
		"bench/...",
		"tools/...",
		"test/...",
	}
}

// isIn reports whether one of these patterns, relative to the module, matches a package.
func isIn(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return Matches(module+pattern, path)
	})
}

// findGroup returns the group of a package, counted from the top; -1 for none.
func findGroup(groups []string, path string) int {
	return slices.IndexFunc(groups, func(group string) bool { return Matches(module+group+"/...", path) })
}

// CheckOrder returns one message for each import of a package in a higher group or of another stage type, and for each
// package that is in no group. A package may import packages of its own group and of the groups below it.
func CheckOrder(g Graph, groups []string) []string {
	var broken []string
	for _, p := range g.Own() {
		if isIn(apart(), p.ImportPath) {
			continue
		}

		name := strings.TrimPrefix(p.ImportPath, module)
		group := findGroup(groups, p.ImportPath)
		if group < 0 {
			broken = append(broken, name+" is in no group: add it to the table of packages in docs/develop/architecture.md")
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

// whyForbidden returns why a package of a group may not import another package; "" if it may.
func whyForbidden(groups []string, group int, path, imported string) string {
	below := findGroup(groups, imported)
	from, to := stageType(path), stageType(imported)
	switch {
	case below < 0 || isIn(apart(), imported):
		return "which is in no group: only packages outside of the groups may import it"
	case below < group:
		return "which is in a higher group: move the shared code to a package below both"
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
