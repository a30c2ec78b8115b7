package deptest

import (
	"fmt"
	"slices"
	"strings"
)

// order lists the rooms from the roof to the cellar. A package may import from the rows below its own and from its own
// room, never from a row above and never from beside: who needs something of a neighbour moves it down.
func order() [][]string {
	return [][]string{
		{"cmd/..."},
		{"internal/app"},
		{"internal/report/printer/...", "internal/commit"},
		{"internal/commit/activation/...", "internal/lang/explain/...", "internal/probe", "internal/detector/...", "internal/probe/kubeletstate/...", "internal/report", "internal/app/doctor/...", "internal/app/importer/..."},
		{"internal/boot/..."},
		{"internal/probe/joined/..."},
		{"stages/builtin/..."},
		{"stages/fetchca/...", "stages/fetchconfig/...", "stages/detecthw/...", "stages/reserve/...", "stages/label/...", "stages/taint/...", "stages/write/...", "stages/restart/..."},
		{"internal/lang/eval/..."},
		{"internal/lang", "internal/commit/generation/...", "internal/probe/cluster/...", "internal/probe/cri/...", "internal/probe/hardware/...", "internal/platform/systemd/...", "internal/probe/kubeletbin/..."},
		{"stages"}, // the contract only: a site holds instances of it
		{"internal/kubelet/..."},
		{"schema/...", "internal/node/...", "internal/world/..."},
		{"internal/lang/value/...", "internal/lang/origin/...", "internal/platform/atomicfile/...", "internal/platform/machineid/..."},
		{"internal/platform/nodefile/..."},
		{"internal/server/...", "internal/fault/..."},
	}
}

// apart are the packages that stand beside the house: they may import what they like, and no room imports them.
func apart() []string {
	return []string{"internal/demo/...", "internal/deptest/...", "examples/...", "bench/...", "tools/...", "test/..."}
}

// types returns the stage types, which are the rooms under stages/ that hold one.
func types() []string {
	var out []string
	for _, row := range order() {
		for _, room := range row {
			name, ok := strings.CutPrefix(strings.TrimSuffix(room, "/..."), "stages/")
			if ok && name != "builtin" {
				out = append(out, name)
			}
		}
	}
	return out
}

// place finds the room of a package and the row that it stands in, counted from the roof.
func place(path string) (row int, room string, found bool) {
	for i, rooms := range order() {
		for _, r := range rooms {
			if Matches(module+r, path) {
				return i, r, true
			}
		}
	}
	return 0, "", false
}

// CheckOrder returns one message for each import that goes up or sideways, and for each package without a place.
func CheckOrder(g Graph) []string {
	var broken []string
	for _, p := range g.Own() {
		if slices.ContainsFunc(apart(), func(a string) bool { return Matches(module+a, p.ImportPath) }) {
			continue
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		row, room, found := place(p.ImportPath)
		if !found {
			broken = append(broken, name+" has no place in the house: give it a row in internal/deptest/order.go, or put it into a room that has one")
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) || Matches(module+room, imported) || Matches(module+"plugins/...", imported) {
				continue // of plugins/, a module of its own below all rooms, a rule says who may use what
			}
			other := strings.TrimPrefix(imported, module)
			below, _, found := place(imported)
			switch {
			case !found:
				broken = append(broken, fmt.Sprintf("%s imports %s, which stands apart from the house: no room may need it", name, other))
			case below < row:
				broken = append(broken, fmt.Sprintf("%s imports %s, which is above it: what both need belongs below both", name, other))
			case below == row:
				broken = append(broken, fmt.Sprintf("%s imports %s, which is beside it: what both need belongs below both", name, other))
			}
		}
	}
	return broken
}
