package deptest

import (
	"slices"
	"strings"
)

// order lists the packages from top to bottom. A package may import packages of lower rows and below itself, but not
// packages of its own row or of a higher one: move shared code down instead.
func order() [][]string {
	return [][]string{
		{"cmd/..."},
		{"internal/app"},
		{"internal/commit", "internal/report/printer"},
		{"internal/app/compare", "internal/app/image"},
		{
			"internal/app/doctor",
			"internal/app/importer",
			"internal/commit/activation",
			"internal/detector/...",
			"internal/lang/explain",
			"internal/lang/testfile",
			"internal/probe",
			"internal/probe/kubeletstate",
			"internal/report",
			"internal/report/fleet",
		},
		{"internal/boot"},
		{"internal/probe/joined"},
		{"stages/builtin"},
		{
			"stages/fetchca",
			"stages/fetchconfig",
			"stages/detecthw",
			"stages/reserve",
			"stages/label",
			"stages/taint",
			"stages/write",
			"stages/restart",
		},
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
			"internal/report/annotation",
			"internal/report/condition",
			"internal/fault",
			"internal/manual",
			"internal/quantity",
		},
	}
}

// apart lists packages outside of the order: they may import anything, and no package of the order imports them.
func apart() []string {
	return []string{
		"internal/demo/...",
		"internal/deptest/...",
		"examples/...",
		"bench/...",
		"tools/...",
		"test/...",
	}
}

// types returns the stage types: the names of the packages below stages/, without builtin.
func types() []string {
	var out []string
	for _, row := range order() {
		for _, pattern := range row {
			name, ok := strings.CutPrefix(strings.TrimSuffix(pattern, "/..."), "stages/")
			if ok && name != "builtin" {
				out = append(out, name)
			}
		}
	}
	return out
}

// place returns the entry of order that contains a package, and its row, counted from the top.
func place(path string) (row int, pattern string, found bool) {
	for i, patterns := range order() {
		for _, r := range patterns {
			if Matches(module+r, path) {
				return i, r, true
			}
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
		row, pattern, found := place(p.ImportPath)
		if !found {
			problem := " is in no row of the import order: add it to a row in internal/deptest/order.go"
			broken = append(broken, name+problem)
			continue
		}
		for _, imported := range p.Imports {
			isOwn := strings.HasPrefix(imported, module)
			isOfTree := Matches(module+pattern, imported)
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
		return "which is in the same row: move the shared code to a package below both"
	}
	return ""
}
