package boot

import (
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// gateDropIn is prelet's own drop-in of the kubelet's unit. One that sorts after it is read after it.
const gateDropIn = "05-prelet-gate.conf"

// gateLine makes the kubelet wait for the gate.
const gateLine = "EnvironmentFile=/run/prelet/kubelet.env"

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
		why := describeRefusal(f.Text.Template())
		next := "Remove that line"
		isAfterGate := isDropIn && path.Base(name) > gateDropIn
		if why == "" && isAfterGate && endsGate(f.Text.Template()) && !hasLaterGate(n, f.Path) {
			why = "An empty EnvironmentFile= takes away the file that the kubelet waits for"
			next = "Remove that line, or write " + gateLine + " below it"
		}
		if why != "" {
			found.report(origin.Error(
				fault.Conflict, findDeclaration(f), "prelet could not start "+unit+" with "+f.Path,
				"%s. %s.", why, next,
			))
		}
	}

	return found
}

// hasLaterGate reports whether a planned drop-in in the folder of another that is read after it has the gate.
func hasLaterGate(n node.Node, dropIn string) bool {
	return slices.ContainsFunc(n.Files, func(f node.File) bool {
		isLater := path.Dir(f.Path) == path.Dir(dropIn) && f.Path > dropIn && path.Ext(f.Path) == ".conf"
		text := f.Text.Template()

		return isLater && f.Kind == node.Regular && strings.Contains(text, gateLine) && !endsGate(text)
	})
}

// endsGate reports whether a drop-in takes away the gate, and does not bring it back.
func endsGate(text string) (isEnd bool) {
	for setting, value := range readSettings(text) {
		switch {
		case setting != "EnvironmentFile":
		case value == "":
			isEnd = true
		case setting+"="+value == gateLine:
			isEnd = false
		}
	}

	return isEnd
}

// readSettings returns the settings of a unit file and their values, in order. A line that ends with a backslash goes
// on with the next one that is not a comment.
func readSettings(text string) iter.Seq2[string, string] {
	return func(yield func(setting, value string) bool) {
		line := ""
		for part := range strings.Lines(text) {
			part = strings.TrimSpace(part)
			if strings.HasPrefix(part, "#") || strings.HasPrefix(part, ";") {
				continue
			}
			begin, isContinued := strings.CutSuffix(part, "\\")
			line += begin + " "
			if isContinued {
				continue
			}

			setting, value, _ := strings.Cut(line, "=")
			line = ""
			if !yield(strings.TrimSpace(setting), strings.Join(strings.Fields(value), " ")) {
				return
			}
		}
	}
}

// describeRefusal returns the line of a unit file that prelet's own units cannot work with, and why; "" if there is
// none.
func describeRefusal(text string) string {
	ownUnits := []string{"prelet.service", "prelet-apply.service", "prelet-verify.service"}
	isOwn := func(unit string) bool { return slices.Contains(ownUnits, unit) }

	for setting, value := range readSettings(text) {
		line := setting + "=" + value
		switch setting {
		case "RefuseManualStart", "RefuseManualStop":
			if slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value)) {
				return line + ": systemd refuses what prelet asks for"
			}
		case "Conflicts":
			if slices.ContainsFunc(strings.Fields(value), isOwn) {
				return line + ": systemd stops one for the other"
			}
		case "Requires", "Requisite", "BindsTo":
			if slices.ContainsFunc(strings.Fields(value), isOwn) {
				return line + ": one failed run would keep the kubelet from starting"
			}
		}
	}

	return ""
}
