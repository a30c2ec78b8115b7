package rules

import (
	"strings"

	"github.com/prelet/prelet/internal/kubelet/known"
)

// Defaults returns what a kubelet takes where its configuration sets nothing: the defaults of the fields that are not
// set, as text, and each feature gate, on or off. The version must be in the tables.
func Defaults(s Subject) (fields map[string]string, gates map[string]bool) {
	c := newChecker(s)

	fields = map[string]string{}
	for _, name := range known.Fields(c.minor) {
		if c.lookUp(strings.Split(name, ".")...) == nil {
			field, _ := known.FieldAt(name, c.minor)
			fields[name] = field.Default
		}
	}

	gates = map[string]bool{}
	for _, name := range known.Gates(c.minor) {
		gates[name] = c.isGateOn(name)
	}

	return fields, gates
}
