package hostfiles

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/value"
)

// MakeGateDropIn returns the drop-in of prelet's package that makes a unit wait for the gate.
func MakeGateDropIn(unit string) node.File {
	return node.File{
		Path: "/usr/lib/systemd/system/" + unit + ".d/05-prelet-gate.conf",
		Kind: node.Regular,
		Text: value.PlainText("[Service]\nEnvironmentFile=" + unitfile.Gate + "\n"),
	}
}

// DescribeRefusal returns why prelet's own units cannot work with a line of a unit, and what to do; "" if they can.
// later are the lines that systemd reads after it.
func DescribeRefusal(s unitfile.Setting, later []unitfile.Setting) string {
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
