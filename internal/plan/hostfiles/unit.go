package hostfiles

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// listUnitNames returns the names of the kubelet's unit.
func listUnitNames(n desired.Node) []string { return append([]string{n.KubeletUnit()}, n.Aliases...) }

// makeGateDropIn returns the drop-in of prelet's package that makes a unit wait for the gate.
func makeGateDropIn(unit string) desired.File {
	return desired.File{
		Path: "/usr/lib/systemd/system/" + unit + ".d/05-prelet-gate.conf",
		Kind: desired.Regular,
		Text: secret.PlainText("[Service]\nEnvironmentFile=" + unitfile.Gate + "\n"),
	}
}

// describeRefusal returns why prelet's own units cannot work with a line of a unit, and what to do; "" if they can.
// later are the lines that systemd reads after it.
func describeRefusal(s unitfile.Setting, later []unitfile.Setting) string {
	text := s.Name + "=" + strings.Join(strings.Fields(s.Value), " ")
	hasOwn := slices.ContainsFunc(strings.Fields(s.Value), func(unit string) bool {
		return slices.Contains([]string{"prelet.service", "prelet-apply.service", "prelet-verify.service"}, unit)
	})
	isLater := func(is func(value string) bool) bool {
		return slices.ContainsFunc(later, func(o unitfile.Setting) bool {
			return o.Section == s.Section && o.Name == s.Name && is(o.Value)
		})
	}

	switch s.Section + "/" + s.Name {
	case "Unit/RefuseManualStart", "Unit/RefuseManualStop":
		refuses, _ := unitfile.ParseBool(s.Value)
		permits := func(value string) bool {
			refuses, isValid := unitfile.ParseBool(value)
			return isValid && !refuses
		}
		if refuses && !isLater(permits) {
			return text + ": systemd refuses what prelet asks for. Remove that line"
		}
	case "Unit/Conflicts":
		if hasOwn {
			return text + ": systemd stops one for the other. Remove that line"
		}
	case "Unit/Requires", "Unit/Requisite", "Unit/BindsTo":
		if hasOwn {
			return text + ": one failed run would keep the kubelet from starting. Remove that line"
		}
	case "Service/EnvironmentFile":
		if s.Value == "" && !isLater(func(value string) bool { return value == unitfile.Gate }) {
			return "An empty EnvironmentFile= takes away the file that the kubelet waits for. Remove that line, or " +
				"write EnvironmentFile=" + unitfile.Gate + " below it"
		}
	}

	return ""
}

// ListUnitFiles returns the planned files of the kubelet's unit, its own and its drop-ins, in the order in which
// systemd reads them.
func ListUnitFiles(n desired.Node) (out []desired.File) {
	byPath := map[string]desired.File{}
	var paths []string
	for _, f := range n.Files {
		if f.Kind == desired.Regular {
			byPath[f.Path] = f
			paths = append(paths, f.Path)
		}
	}
	for _, p := range unitfile.Select(listUnitNames(n), paths) {
		out = append(out, byPath[p])
	}

	return out
}

// CheckUnitFiles refuses planned files of the kubelet's unit with which prelet could not stop or start it, or with
// which it would start before its files are complete. Source: systemd.unit(5).
func CheckUnitFiles(n desired.Node) hcl.Diagnostics {
	var found origin.Collector
	type line struct {
		unitfile.Setting

		file desired.File
	}
	unit := n.KubeletUnit()
	gate := makeGateDropIn(unit)
	n.Files = append(slices.Clip(n.Files), gate)

	var lines []line
	for _, f := range ListUnitFiles(n) {
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
		why := describeRefusal(l.Setting, later)
		if why == "" || reported == l.file.Path {
			continue
		}
		reported = l.file.Path
		found.Error(
			fault.Conflict, l.file.FindDeclaration(), "prelet could not start "+unit+" with "+l.file.Path, "%s.", why,
		)
	}

	return found.Diags
}
