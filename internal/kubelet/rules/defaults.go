package rules

import (
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// Defaults returns what a kubelet of a minor version takes where its effective configuration sets nothing: of some
// fields the defaults of those that are not set, as text, and of some feature gates whether they are on.
func Defaults(config map[string]any, minor int, fields, gates []string) (map[string]string, map[string]bool) {
	c := &checker{Subject: Subject{Config: kubelet.ConfigOf(config)}, config: config, minor: minor}

	defaults := map[string]string{}
	for _, name := range fields {
		field, isKnown := known.FieldAt(name, minor)
		if isKnown && c.lookUp(strings.Split(name, ".")...) == nil {
			defaults[name] = field.Default
		}
	}

	isOn := map[string]bool{}
	for _, name := range gates {
		if _, isKnown := known.GateAt(name, minor); isKnown {
			isOn[name] = c.isGateOn(name)
		}
	}

	return defaults, isOn
}
