package deptest

import (
	"slices"
	"strings"
)

// order lists the packages from top to bottom. A package may import packages of lower rows and below itself, but not
// packages of its own row or of a higher one: move shared code down instead. "stages/*" is each package below stages
// that no higher row names, with what is below it: stage types are packages of one row.
func order() [][]string {
	return [][]string{
		{"cmd/..."},
		{"internal/app"},
		{"internal/commit", "internal/report/printer"},
		{"internal/app/compare", "internal/app/doctor"},
		{"internal/app/image"},
		{
			"internal/app/importer",
			"internal/commit/activation",
			"internal/detector/...",
			"internal/lang/explain",
			"internal/lang/testfile",
			"internal/probe",
			"internal/probe/kubeletstate",
			"internal/report/fleet",
		},
		{"internal/boot", "internal/report"},
		{"internal/probe/joined"},
		{"stages/builtin"},
		{"stages/*"}, // values go from stage to stage only by references in the site, so that the graph shows them
		{"internal/lang/eval"},
		{
			"internal/lang",
			"internal/commit/generation",
			"internal/probe/cluster",
			"internal/probe/cri",
			"internal/probe/hardware/...",
			"internal/probe/kubeletbin",
			"internal/platform/systemd",
		},
		{"stages"}, // the contract only: a site has instances of it
		{"internal/kubelet/..."},
		{"schema", "internal/node", "internal/world"},
		{
			"internal/lang/value",
			"internal/lang/origin",
			"internal/platform/atomicfile",
			"internal/platform/machineid",
			"internal/platform/signature",
		},
		{"internal/platform/nodefile"},
		{
			"internal/platform/apiaddress",
			"internal/platform/unitfile",
			"internal/report/annotation",
			"internal/report/condition",
			"internal/fault",
			"internal/nearest",
			"internal/quantity",
		},
	}
}

// apart lists packages outside of the order: they may import anything, and no package of the order imports them.
func apart() []string {
	return []string{
		"internal/demo/...",
		"internal/scripttest/...",
		"internal/deptest/...",
		"examples/...",
		"bench/...",
		"tools/...",
		"test/...",
	}
}

// place returns the row of a package, counted from the top, and the pattern of the packages that it may import whatever
// their row: what is below itself, as order names it.
func place(path string) (row int, tree string, found bool) {
	for i, patterns := range order() {
		for _, pattern := range patterns {
			if !Matches(module+pattern, path) {
				continue
			}
			if folder, isEach := strings.CutSuffix(module+pattern, "*"); isEach {
				name, _, _ := strings.Cut(strings.TrimPrefix(path, folder), "/")
				return i, folder + name + "/...", true
			}

			return i, module + pattern, true
		}
	}
	return 0, "", false
}

// isIn reports whether one of these patterns, relative to the module, matches a package.
func isIn(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return Matches(module+pattern, path)
	})
}

// CheckOrder returns one message for each import of a package in the same or a higher row, and for each package that is
// in no row.
func CheckOrder(g Graph) []string {
	var broken []string
	for _, p := range g.Own() {
		if isIn(apart(), p.ImportPath) {
			continue
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		row, tree, found := place(p.ImportPath)
		if !found {
			problem := " is in no row of the import order: add it to a row in internal/deptest/order_test.go"
			broken = append(broken, name+problem)
			continue
		}
		for _, imported := range p.Imports {
			isOwn := strings.HasPrefix(imported, module)
			isOfTree := Matches(tree, imported)
			isPlugin := Matches(module+"plugins/...", imported) // a module of its own, see rules
			if !isOwn || isOfTree || isPlugin {
				continue
			}
			if fault := compareRows(row, imported); fault != "" {
				broken = append(broken, name+" imports "+strings.TrimPrefix(imported, module)+", "+fault)
			}
		}
	}
	return broken
}

// compareRows returns why a package of a row may not import another package; "" if it may.
func compareRows(row int, imported string) string {
	below, _, found := place(imported)
	switch {
	case !found:
		return "which is outside of the import order: only packages outside of it may import it"
	case below < row:
		return "which is above it: move the shared code to a package below both"
	case below == row:
		if Matches(module+"stages/*", imported) {
			return "which is in the same row: a stage gets values of another only by references in the site, because " +
				"a direct import would be a dependency that the graph does not show"
		}

		return "which is in the same row: move the shared code to a package below both"
	}
	return ""
}
