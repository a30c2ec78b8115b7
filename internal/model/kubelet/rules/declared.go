package rules

import (
	"strings"

	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// Declaration is a feature that a node may list in status.declaredFeatures, by which pods are placed (KEP-5328).
type Declaration struct {
	Name      string
	Declared  bool // as far as feature gates decide
	ByRuntime bool // if so, the container runtime decides
}

// Declarations returns the features that a node of this version may declare, sorted by name. isKnown is false where the
// version or the whole configuration is not known. Up to 1.35 a node declares nothing, unless an alpha gate is on.
func Declarations(s Subject) (list []Declaration, isKnown bool) {
	c := newChecker(s)
	if !c.hasTables || s.Config == nil || s.Part {
		return nil, false
	}
	if c.minor < 36 {
		return nil, !c.isGateOn(declaredGate)
	}

	for _, f := range c.listDeclared() {
		list = append(list, f.Declaration)
	}

	return list, true
}

// declaredGate is the feature gate of the whole list.
const declaredGate = "NodeDeclaredFeatures"

type declared struct {
	Declaration
	isDefault bool
	gates     []string
}

// listDeclared returns the features that the node may declare, with the gates that decide.
func (c *checker) listDeclared() (list []declared) {
	for _, name := range known.DeclaredFeatures(c.minor) {
		needs, _ := known.DeclaredAt(name, c.minor)
		f := declared{gates: append([]string{declaredGate}, needs.Gates...), isDefault: true}
		f.Name = name
		f.ByRuntime = needs.ByRuntime
		f.Declared = true
		for _, gate := range f.gates {
			g, _ := c.findGate(gate)
			f.isDefault = f.isDefault && g.On
			f.Declared = f.Declared && c.isGateOn(gate)
		}
		list = append(list, f)
	}

	return list
}

// reportDeclared reports feature gates that change the features that the node declares, if the configuration sets them.
func reportDeclared(c *checker) {
	if !c.hasTables {
		return
	}

	type gateChange struct {
		gate string
		isOn bool
	}
	changes := map[gateChange][]string{}
	for _, f := range c.listDeclared() {
		if gate := c.findCause(f); gate != "" {
			name := f.Name
			if f.ByRuntime && f.Declared {
				name += " (if the container runtime supports it)"
			}
			changes[gateChange{gate, f.Declared}] = append(changes[gateChange{gate, f.Declared}], name)
		}
	}

	for at, names := range changes {
		verb, end := "adds %s to", ""
		if !at.isOn {
			verb = "leaves %s out of"
			end = ", and the kubelet refuses those that are on this one when it starts"
		}
		c.reportAt([]string{"featureGates", at.gate}, "set it alike on all nodes of a pool", "the node "+verb+
			" its status.declaredFeatures: pods that need it are placed on nodes that declare it"+end,
			strings.Join(names, ", "))
	}
}

// findCause returns the gate by which the configuration changes whether a feature is declared; "" if it does not.
func (c *checker) findCause(f declared) string {
	if f.Declared == f.isDefault {
		return ""
	}

	set := c.setGates()
	for _, gate := range append(f.gates, "AllAlpha", "AllBeta") {
		isOn, isSet := set[gate].(bool)
		preset, _ := c.findGate(gate)
		isGroup := gate == "AllAlpha" || gate == "AllBeta"
		if isSet && isOn == f.Declared && (isGroup || isOn != preset.On) {
			return gate
		}
	}

	return ""
}
