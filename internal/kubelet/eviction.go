package kubelet

// IgnoreEvictionFlag is the flag that keeps nothing from pods for evictionHard; the thresholds themselves hold
// (cmd/kubelet/app/server.go, run).
const IgnoreEvictionFlag = "experimental-allocatable-ignore-eviction"

// EvictionSignals are what evictions are measured by (pkg/kubelet/eviction/api, v1.36.3).
func EvictionSignals() []string {
	return []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available"}
}

// DefaultEvictionHard returns the thresholds of a kubelet on Linux whose configuration has no evictionHard
// (pkg/kubelet/eviction/defaults_linux.go, v1.36.3; older ones, v1.23 for one, have no imagefs.inodesFree).
func DefaultEvictionHard() map[string]string {
	return map[string]string{
		"memory.available":   "100Mi",
		"nodefs.available":   "10%",
		"nodefs.inodesFree":  "5%",
		"imagefs.available":  "15%",
		"imagefs.inodesFree": "5%",
	}
}

// EffectiveEvictionHard returns the thresholds that the kubelet works with: the defaults where evictionHard is absent;
// the configuration's alone where it is there, even empty; and both with mergeDefaultEvictionSettings.
func EffectiveEvictionHard(c *Config) map[string]string { return EvictionHardOf(c.doc) }

// EvictionHardOf is EffectiveEvictionHard for the members of a configuration.
func EvictionHardOf(doc map[string]any) map[string]string {
	own := map[string]string{}
	object, _ := doc["evictionHard"].(map[string]any)
	for name, v := range object {
		if s, ok := v.(string); ok {
			own[name] = s
		}
	}
	merge, _ := doc["mergeDefaultEvictionSettings"].(bool)
	if doc["evictionHard"] != nil && !merge {
		return own
	}
	all := DefaultEvictionHard()
	for name, value := range own {
		all[name] = value
	}
	return all
}
