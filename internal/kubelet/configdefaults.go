package kubelet

import (
	"slices"
	"strings"
)

// DefaultMaxPods is the maxPods of a kubelet whose configuration has none (KubeletConfiguration v1beta1, v1.36.3).
const DefaultMaxPods = 110

// KnownField says whether KubeletConfiguration v1beta1 has a field, written as clusterDNS or logging.format; also a key
// of one whose keys are free, as evictionHard.memory.available.
func KnownField(name string) bool {
	fields := configFields()
	if t := fields[name]; t != typeUnknown {
		return !strings.Contains(name, "[]")
	}
	field, key, ok := strings.Cut(name, ".")
	if !ok || key == "" {
		return false
	}
	switch t := fields[field]; {
	case strings.HasPrefix(field, "eviction"):
		return t == typeStrings && slices.Contains(signals(), key)
	default:
		return t == typeStrings || t == typeBools
	}
}

// FieldDefault is what a kubelet on Linux takes for a field that its configuration does not have, as far as it is known
// here. Of an evictionHard that is there the kubelet fills nothing in, so a key of it counts only where all of it is missing.
func FieldDefault(name string) (value any, known bool) {
	if name == "maxPods" {
		return int64(DefaultMaxPods), true
	}
	defaults := DefaultEvictionHard()
	if name == "evictionHard" {
		all := map[string]any{}
		for k, v := range defaults {
			all[k] = v
		}
		return all, true
	}
	v, known := defaults[strings.TrimPrefix(name, "evictionHard.")]
	return v, known && strings.HasPrefix(name, "evictionHard.")
}
