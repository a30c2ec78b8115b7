package kubelet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// signals are what evictions are measured by (pkg/kubelet/eviction/api, v1.36.3).
func signals() []string {
	return []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available"}
}

func (k *checker) signal(path []string) bool {
	name := path[len(path)-1]
	if slices.Contains(signals(), name) {
		return true
	}
	k.fail(path, "config-unknown-signal", choose(name, signals()), "unsupported eviction signal %s", name)
	return false
}

func (k *checker) thresholds(field string) {
	statements := k.stringMap(field)
	for _, name := range sortedKeys(statements) {
		path, value := []string{field, name}, statements[name]
		if !k.signal(path) {
			continue
		}
		if percent, ok := strings.CutSuffix(value, "%"); ok {
			n, err := strconv.ParseFloat(percent, 32)
			switch {
			case err != nil:
				k.fail(path, "config-bad-threshold", "write a number and %, like 10%", "%s", err)
			case n < 0:
				k.fail(path, "config-bad-threshold", "", "eviction percentage threshold %s must be >= 0%%: %s", name, value)
			case n > 100:
				k.fail(path, "config-bad-threshold", "", "eviction percentage threshold %s must be <= 100%%: %s", name, value)
			}
			continue
		}
		if q, ok := k.quantity(path, value); ok && q.Sign() <= 0 {
			k.fail(path, "config-bad-threshold", "to switch a threshold off write 0%", "eviction threshold %s must be positive: %s", name, value)
		}
	}
}

func (k *checker) softGrace() {
	periods := k.stringMap("evictionSoftGracePeriod")
	for _, name := range sortedKeys(periods) {
		path := []string{"evictionSoftGracePeriod", name}
		if !k.signal(path) {
			continue
		}
		if d, ok := k.duration(path, periods[name]); ok && d < 0 {
			k.fail(path, "config-bad-duration", "", "invalid eviction grace period specified: %s, must be a positive value", periods[name])
		}
	}
	soft := k.stringMap("evictionSoft")
	for _, name := range sortedKeys(soft) {
		if _, ok := periods[name]; !ok && soft[name] != "0%" && soft[name] != "100%" {
			k.fail([]string{"evictionSoft", name}, "config-soft-without-grace", fmt.Sprintf("add evictionSoftGracePeriod: {%s: 1m30s}", name),
				"grace period must be specified for the soft eviction threshold %s", name)
		}
	}
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
func EffectiveEvictionHard(c *Config) map[string]string {
	k := checker{config: c}
	own := k.stringMap("evictionHard")
	merge, _ := c.doc["mergeDefaultEvictionSettings"].(bool)
	if c.doc["evictionHard"] != nil && !merge {
		return own
	}
	all := DefaultEvictionHard()
	for name, value := range own {
		all[name] = value
	}
	return all
}
