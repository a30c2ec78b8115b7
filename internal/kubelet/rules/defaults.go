package rules

import (
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// Defaults returns what a kubelet of a minor version takes where its effective configuration sets nothing: as text the
// defaults of some fields, of which a later version may have added some with what was so before, and of those in
// gatedDefaults; and of some feature gates whether they are on.
func Defaults(config map[string]any, minor int, fields, gates []string) (map[string]string, map[string]bool) {
	c := &checker{Subject: Subject{Config: kubelet.ConfigOf(config)}, config: config, minor: minor}

	defaults := map[string]string{}
	for _, name := range fields {
		history, _ := known.FieldHistory(name)
		field, isKnown := known.FieldAt(name, max(minor, history.Since()))
		if isKnown && c.isUnset(name) {
			defaults[name] = field.Default
		}
	}
	for _, d := range gatedDefaults() {
		if !c.isUnset(d.field) {
			continue
		}
		defaults[d.field] = ""
		if _, isKnown := known.FieldAt(d.field, minor); isKnown && c.isGateOn(d.gate) {
			defaults[d.field] = d.value
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

// isUnset reports whether a field has its default: it is not set, or written as kubeadm writes what is not set.
func (c *checker) isUnset(field string) bool {
	value := c.valueAt(field)

	return value == nil || value == "" || value == "0s"
}

// gatedDefault is a default that a field has only while a feature gate is on.
type gatedDefault struct{ field, gate, value string }

// gatedDefaults returns all of them.
// Source: pkg/kubelet/apis/config/v1beta1/defaults.go
func gatedDefaults() []gatedDefault {
	return []gatedDefault{
		{"crashLoopBackOff.maxContainerRestartPeriod", "KubeletCrashLoopBackOffMax", "5m0s"},
		{"imagePullCredentialsVerificationPolicy", "KubeletEnsureSecretPulledImages", "NeverVerifyPreloadedImages"},
	}
}
