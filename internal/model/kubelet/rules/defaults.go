package rules

import (
	"cmp"
	"strconv"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// Defaults returns the defaults of a kubelet of a minor version that its effective configuration leaves in effect: as
// text those of some fields, and those that depend on feature gates or other fields; and whether some feature gates are
// on. A field that only a later version has gets that version's default, which keeps the earlier behaviour.
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
	for _, d := range gatedDefaults {
		if c.isUnset(d.field) {
			field, isKnown := known.FieldAt(d.field, minor)
			defaults[d.field] = ""
			if isKnown && c.isGateOn(d.gate) {
				defaults[d.field] = cmp.Or(d.value, field.Default)
			}
		}
	}
	if c.isUnset("serializeImagePulls") {
		const parallel = "maxParallelImagePulls"
		_, isKnown := known.FieldAt(parallel, minor)
		defaults["serializeImagePulls"] = strconv.FormatBool(!isKnown || c.numberOf(parallel) < 2)
	}

	isOn := map[string]bool{}
	for _, name := range gates {
		if _, isKnown := known.GateAt(name, minor); isKnown {
			isOn[name] = c.isGateOn(name)
		}
	}

	return defaults, isOn
}

// isUnset reports whether a field has its default: it is not set, or has the empty value that kubeadm writes for an
// unset field.
func (c *checker) isUnset(field string) bool {
	value := c.valueAt(field)

	return value == nil || value == "" || value == "0s"
}

// gatedDefaults are those that a field has only while a feature gate is on; without a value that of the tables.
// Source: pkg/kubelet/apis/config/v1beta1/defaults.go
var gatedDefaults = []struct{ field, gate, value string }{
	{"crashLoopBackOff.maxContainerRestartPeriod", "KubeletCrashLoopBackOffMax", "5m0s"},
	{"imagePullCredentialsVerificationPolicy", "KubeletEnsureSecretPulledImages", "NeverVerifyPreloadedImages"},
	{"memoryThrottlingFactor", "MemoryQoS", ""}, // without the gate it has no effect
}
