package kubelet

import "testing"

func TestEffectiveEvictionHard(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                     DefaultEvictionHard(),
		"evictionHard: null\n": DefaultEvictionHard(),
		"evictionHard: {}\n":   {},
		"evictionHard: {memory.available: 1Gi}\n":                                     {"memory.available": "1Gi"},
		"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n": {"memory.available": "1Gi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"},
	} {
		got := EffectiveEvictionHard(mustConfig(t, header+text))
		if len(got) != len(want) {
			t.Errorf("%q: %v", text, got)
		}
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%q: %s is %q, want %q", text, name, got[name], want[name])
			}
		}
	}
}
