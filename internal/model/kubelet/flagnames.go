package kubelet

import (
	_ "embed"
	"strings"
)

// flagForms has the flags that pflag parses differently, a form and a name in each line.
//
//go:embed flagnames.txt
var flagForms string

// isBoolFlag reports whether a flag is a switch.
func isBoolFlag(name string) bool { return strings.Contains(flagForms, "\nswitch "+name+"\n") }

// isListFlag reports whether the values of a repeated flag are added up.
func isListFlag(name string) bool { return strings.Contains(flagForms, "\nlist "+name+"\n") }
