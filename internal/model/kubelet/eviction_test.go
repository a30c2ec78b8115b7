package kubelet

import (
	"maps"
	"testing"
)

func TestEffectiveEvictionHard(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                     DefaultEvictionHard(),
		"evictionHard: null\n": DefaultEvictionHard(),
		"evictionHard: {}\n":   {},
		"evictionHard: {memory.available: 1Gi}\n":                                     {"memory.available": "1Gi"},
		"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n": {"memory.available": "1Gi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"},
	} {
		if got := EffectiveEvictionHard(mustConfig(t, header+text), ""); !maps.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestEffectiveEvictionHardOfOlder: a kubelet that is older than mergeDefaultEvictionSettings ignores the field.
func TestEffectiveEvictionHardOfOlder(t *testing.T) {
	c := mustConfig(t, header+"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n")
	for version, want := range map[string]int{"1.32.9": 1, "v1.33.0": 5, "1.36.3": 5, "": 5} {
		if got := EffectiveEvictionHard(c, version); len(got) != want {
			t.Errorf("of %q: got %v, want %d thresholds", version, got, want)
		}
	}
}
