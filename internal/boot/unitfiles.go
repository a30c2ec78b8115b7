package boot

import (
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// gateDropIn is prelet's own drop-in of the kubelet's unit. One that sorts after it is read after it.
const gateDropIn = "05-prelet-gate.conf"

// checkUnitFiles refuses planned files of the kubelet's unit with which prelet could not stop or start it, or with
// which it would start before its files are complete. Source: systemd.unit(5).
func checkUnitFiles(n node.Node) (found Findings) {
	unit := findKubeletUnit(n)
	for _, f := range n.Files {
		_, name, _ := strings.Cut(f.Path, "/systemd/system/")
		isDropIn := strings.HasPrefix(name, unit+".d/")
		if name != unit && !isDropIn || f.Kind != node.Regular {
			continue
		}
		isAfterGate := isDropIn && path.Base(name) > gateDropIn
		if why := describeRefusal(f.Text.Template(), isAfterGate); why != "" {
			found.report(origin.Error(
				fault.Conflict, findDeclaration(f), "prelet could not start "+unit+" with "+f.Path,
				"%s. Remove that line.", why,
			))
		}
	}

	return found
}

// describeRefusal returns the line of a unit file that prelet's own units cannot work with, and why; "" if there is
// none. isAfterGate: it is read after the drop-in with the gate.
func describeRefusal(text string, isAfterGate bool) string {
	ownUnits := []string{"prelet.service", "prelet-apply.service", "prelet-verify.service"}
	isOwn := func(unit string) bool { return slices.Contains(ownUnits, unit) }

	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		setting, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(setting) {
		case "RefuseManualStart", "RefuseManualStop":
			if slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value)) {
				return line + ": systemd refuses what prelet asks for"
			}
		case "Conflicts":
			if slices.ContainsFunc(strings.Fields(value), isOwn) {
				return strings.Join(strings.Fields(line), " ") + ": systemd stops one for the other"
			}
		case "Requires", "Requisite", "BindsTo":
			if slices.ContainsFunc(strings.Fields(value), isOwn) {
				return strings.Join(strings.Fields(line), " ") + ": one failed run would keep the kubelet from starting"
			}
		case "EnvironmentFile":
			if value == "" && isAfterGate {
				return "An empty EnvironmentFile= takes away the file that the kubelet waits for"
			}
		}
	}

	return ""
}
