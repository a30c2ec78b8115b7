package boot

import (
	"slices"

	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// listUnitFiles returns the planned files of the kubelet's unit, its own and its drop-ins, in the order in which
// systemd reads them.
func listUnitFiles(n node.Node) (out []node.File) {
	byPath := map[string]node.File{}
	var paths []string
	for _, f := range n.Files {
		if f.Kind == node.Regular {
			byPath[f.Path] = f
			paths = append(paths, f.Path)
		}
	}
	for _, p := range unitfile.Select(hostfiles.ListUnitNames(n), paths) {
		out = append(out, byPath[p])
	}

	return out
}

// checkUnitFiles refuses planned files of the kubelet's unit with which prelet could not stop or start it, or with
// which it would start before its files are complete. Source: systemd.unit(5).
func checkUnitFiles(n node.Node) (found Findings) {
	type line struct {
		unitfile.Setting

		file node.File
	}
	unit := n.KubeletUnit()
	gate := hostfiles.MakeGateDropIn(unit)
	n.Files = append(slices.Clip(n.Files), gate)

	var lines []line
	for _, f := range listUnitFiles(n) {
		for _, s := range unitfile.Parse(f.Text.Template()) {
			lines = append(lines, line{s, f})
		}
	}
	reported := ""
	for i, l := range lines {
		var later []unitfile.Setting
		for _, other := range lines[i+1:] {
			later = append(later, other.Setting)
		}
		why := hostfiles.DescribeRefusal(l.Setting, later)
		if why == "" || reported == l.file.Path {
			continue
		}
		reported = l.file.Path
		found.Error(
			fault.Conflict, findDeclaration(l.file), "prelet could not start "+unit+" with "+l.file.Path, "%s.", why,
		)
	}

	return found
}
