package kubelet

import (
	"maps"
	"strconv"
	"strings"
)

// IgnoreEvictionFlag is the flag with which evictionHard reserves nothing; its thresholds still apply
// (cmd/kubelet/app/server.go, run).
const IgnoreEvictionFlag = "experimental-allocatable-ignore-eviction"

// EvictionSignals returns the signals that eviction thresholds are for (pkg/kubelet/eviction/api, v1.36.3).
func EvictionSignals() []string {
	return []string{
		"memory.available",
		"nodefs.available",
		"nodefs.inodesFree",
		"imagefs.available",
		"imagefs.inodesFree",
		"containerfs.available",
		"containerfs.inodesFree",
		"allocatableMemory.available",
		"pid.available",
	}
}

// DefaultEvictionHard returns the thresholds of a kubelet on Linux whose configuration has no evictionHard
// (pkg/kubelet/eviction/defaults_linux.go, v1.36.3; older ones, such as v1.23, lack imagefs.inodesFree).
func DefaultEvictionHard() map[string]string {
	return map[string]string{
		"memory.available":   "100Mi",
		"nodefs.available":   "10%",
		"nodefs.inodesFree":  "5%",
		"imagefs.available":  "15%",
		"imagefs.inodesFree": "5%",
	}
}

// EffectiveEvictionHard returns the thresholds of the file of --config: the defaults where evictionHard is absent;
// the configuration's alone where it is set, even empty; and both with mergeDefaultEvictionSettings, in a version
// that has it ("": the newest). The kubelet adds the defaults only to that file; drop-ins and flags override them
// (cmd/kubelet/app/server.go, loadConfigFile).
func EffectiveEvictionHard(c *Config, version string) map[string]string {
	own := EvictionHardOf(c.doc)
	if c.doc["evictionHard"] == nil || !MergesEvictionHard(c.doc, version) {
		return own
	}

	all := DefaultEvictionHard()
	maps.Copy(all, own)

	return all
}

// MergesEvictionHard reports whether a kubelet adds its defaults to the evictionHard of a file of --config.
func MergesEvictionHard(doc map[string]any, version string) bool {
	const field = "mergeDefaultEvictionSettings"
	merges, _ := doc[field].(bool)

	return merges && KnownField(field, version)
}

// EvictionHardOf returns the thresholds of an effective configuration: the defaults if it has no evictionHard.
func EvictionHardOf(doc map[string]any) map[string]string {
	if doc["evictionHard"] == nil {
		return DefaultEvictionHard()
	}

	own := map[string]string{}
	object, _ := doc["evictionHard"].(map[string]any)
	for name, v := range object {
		if s, ok := v.(string); ok {
			own[name] = s
		}
	}

	return own
}

// ParsePercentage parses a threshold like 5% to 0.05, in the kubelet's single precision. It may be NaN. isPercent is
// false for an amount.
//
// Source: pkg/kubelet/eviction/helpers.go, parsePercentage.
func ParsePercentage(threshold string) (part float32, isPercent bool, err error) {
	if !strings.HasSuffix(threshold, "%") {
		return 0, false, nil
	}
	n, err := strconv.ParseFloat(strings.TrimRight(threshold, "%"), 32)

	return float32(n) / 100, true, err
}

// IsThresholdOff reports whether a threshold of eviction disables its signal: "", 0% or 100%.
func IsThresholdOff(threshold string) bool {
	return threshold == "" || threshold == "0%" || threshold == "100%"
}
