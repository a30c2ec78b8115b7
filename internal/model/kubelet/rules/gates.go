package rules

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/model/kubelet/known"
)

func isUnknownGate(v value) bool {
	_, isBool := v.raw.(bool)
	if _, isKnown := v.findGate(v.key()); isKnown || !isBool {
		return false
	}

	history, isKnown := known.GateHistory(v.key())
	v.variesByVersion = isKnown || v.Version != "" // a version older than the tables may have it
	if !isKnown {
		return v.because(suggest(v.key(), known.Gates(v.minor)), "")
	}

	return v.because("remove it", " (kubelets have it %s, %s)", history.When(), v.describeKubelet())
}

func isLockedGate(v value) bool {
	gate, _ := v.findGate(v.key())
	isOn, isBool := v.raw.(bool)
	v.variesByVersion = true
	v.why = fmt.Sprint(gate.On)

	return isBool && gate.Locked && isOn != gate.On
}

// isEndingGate reports whether the kubelet takes a feature gate as it is set, and later ones will not have it.
func isEndingGate(v value) bool {
	gate, _ := v.findGate(v.key())
	isEnding := gate.Stage == "ga" || gate.Stage == "deprecated"
	if !v.hasTables || !isEnding || isLockedGate(v) {
		return false
	}
	v.why = "is " + strings.Replace(gate.Stage, "ga", "GA", 1) + ": a later kubelet will not have it"
	history, _ := known.GateHistory(v.key())
	if gone, isGone := history.Gone(); isGone && gone > v.minor {
		v.why = "is removed in " + known.Describe(gone)
	}

	return true
}

// reportGateDependencies reports enabled gates whose dependency is disabled, if the configuration sets one of both.
// The defaults fit together.
func reportGateDependencies(c *checker) {
	set := c.setGates()
	if len(set) == 0 {
		return
	}
	for _, name := range known.Needing(c.minor) {
		for _, needed := range known.Needs(name, c.minor) {
			c.startViolation()
			c.variesByVersion = true
			if !c.isGateOn(name) || c.isGateOn(needed) {
				continue
			}
			for _, cause := range []string{name, needed, "AllAlpha", "AllBeta"} {
				if set[cause] != nil {
					c.reportAt([]string{"featureGates", cause}, fmt.Sprintf("set %s: true too, or remove it", needed),
						"%s is enabled, but depends on features that are disabled: [%s]", name, needed)
					break
				}
			}
		}
	}
}
