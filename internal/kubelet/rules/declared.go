package rules

import (
	"strings"

	"github.com/prelet/prelet/internal/kubelet/known"
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

// listDeclared returns what the node may declare, with the gates that decide.
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

// reportDeclared reports feature gates that change what the node declares, if the configuration sets them.
func reportDeclared(c *checker) {
	if !c.hasTables {
		return
	}

	added, removed := map[string][]string{}, map[string][]string{}
	for _, f := range c.listDeclared() {
		gate := c.findCause(f)
		switch {
		case gate == "":
		case f.Declared && f.ByRuntime:
			added[gate] = append(added[gate], f.Name+" (if the container runtime supports it)")
		case f.Declared:
			added[gate] = append(added[gate], f.Name)
		default:
			removed[gate] = append(removed[gate], f.Name)
		}
	}

	const hint = "set it alike on all nodes of a pool"
	const effect = "status.declaredFeatures: pods that need it are placed on nodes that declare it"
	for gate, names := range added {
		c.reportAt([]string{"featureGates", gate}, hint, "the node adds %s to its %s", strings.Join(names, ", "),
			effect)
	}
	for gate, names := range removed {
		c.reportAt([]string{"featureGates", gate}, hint, "the node leaves %s out of its %s, and the kubelet refuses "+
			"those that are on this one when it starts", strings.Join(names, ", "), effect)
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
