package rules

import (
	"strconv"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// Defaults returns what a kubelet of a minor version takes where its effective configuration sets nothing: as text the
// defaults of some fields, of which a later version may have added some with what was so before, and of those in
// derivedDefaults; and of some feature gates whether they are on.
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
	for _, d := range derivedDefaults {
		if _, isKnown := known.FieldAt(d.field, minor); c.isUnset(d.field) {
			defaults[d.field] = ""
			if isKnown {
				defaults[d.field] = d.find(c)
			}
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

// derivedDefaults are those that depend on feature gates or other fields.
// Source: pkg/kubelet/apis/config/v1beta1/defaults.go
var derivedDefaults = []struct {
	field string
	find  func(*checker) string
}{
	{"crashLoopBackOff.maxContainerRestartPeriod", func(c *checker) string {
		return c.ifGate("KubeletCrashLoopBackOffMax", "5m0s")
	}},
	{"imagePullCredentialsVerificationPolicy", func(c *checker) string {
		return c.ifGate("KubeletEnsureSecretPulledImages", "NeverVerifyPreloadedImages")
	}},
	{"memoryThrottlingFactor", func(c *checker) string { // without the gate it has no effect
		field, _ := known.FieldAt("memoryThrottlingFactor", c.minor)

		return c.ifGate("MemoryQoS", field.Default)
	}},
	{"serializeImagePulls", func(c *checker) string {
		const parallel = "maxParallelImagePulls"
		_, isKnown := known.FieldAt(parallel, c.minor)

		return strconv.FormatBool(!isKnown || c.numberOf(parallel) < 2)
	}},
}

// ifGate returns a default that a field has only while a feature gate is on.
func (c *checker) ifGate(name, value string) string {
	if !c.isGateOn(name) {
		return ""
	}

	return value
}
