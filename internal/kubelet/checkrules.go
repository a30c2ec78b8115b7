package kubelet

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// rules are what the kubelet refuses of a configuration that it could decode. Values of a wrong type were
// reported before and are skipped here.
func (k *checker) rules() {
	k.ranges()
	k.words()
	k.enforcement()
	k.reserved("kubeReserved", "--kube-reserved")
	k.reserved("systemReserved", "--system-reserved")
	k.reservedCPUs()
	k.thresholds("evictionHard")
	k.thresholds("evictionSoft")
	k.softGrace()
	k.staticCPU()
	k.staticMemory()
	k.taints()
	k.dns()
}

func (k *checker) text(name string) string {
	s, _ := k.config.doc[name].(string)
	return s
}

func (k *checker) stringMap(name string) map[string]string {
	object, _ := k.config.doc[name].(map[string]any)
	m := map[string]string{}
	for key, v := range object {
		if s, ok := v.(string); ok {
			m[key] = s
		}
	}
	return m
}

func (k *checker) number(name string) (int64, bool) {
	n, ok := k.config.doc[name].(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

func (k *checker) ranges() {
	const most = 1 << 62
	for _, r := range []struct {
		field, flag string
		low, high   int64
		zero        bool // 0 has a meaning of its own
		says        string
	}{
		{"maxPods", "--max-pods", 0, most, false, "must not be a negative number"},
		{"podsPerCore", "--pods-per-core", 0, most, false, "must not be a negative number"},
		{"maxOpenFiles", "--max-open-files", 0, most, false, "must not be a negative number"},
		{"eventBurst", "--event-burst", 0, most, false, "must not be a negative number"},
		{"eventRecordQPS", "--event-qps", 0, most, false, "must not be a negative number"},
		{"kubeAPIBurst", "--kube-api-burst", 0, most, false, "must not be a negative number"},
		{"kubeAPIQPS", "--kube-api-qps", 0, most, false, "must not be a negative number"},
		{"registryBurst", "--registry-burst", 0, most, false, "must not be a negative number"},
		{"registryPullQPS", "--registry-qps", 0, most, false, "must not be a negative number"},
		{"nodeStatusMaxImages", "--node-status-max-images", -1, most, false, "must be -1 or greater"},
		{"imageGCHighThresholdPercent", "--image-gc-high-threshold", 0, 100, false, "must be between 0 and 100, inclusive"},
		{"imageGCLowThresholdPercent", "--image-gc-low-threshold", 0, 100, false, "must be between 0 and 100, inclusive"},
		{"oomScoreAdj", "--oom-score-adj", -1000, 1000, false, "must be between -1000 and 1000, inclusive"},
		{"port", "--port", 1, 65535, true, "must be between 1 and 65535, inclusive"},
		{"readOnlyPort", "--read-only-port", 1, 65535, true, "must be between 0 and 65535, inclusive"},
		{"healthzPort", "--healthz-port", 1, 65535, true, "must be between 1 and 65535, inclusive"},
	} {
		if n, ok := k.number(r.field); ok && (n < r.low || n > r.high) && !(r.zero && n == 0) {
			k.fail([]string{r.field}, "config-out-of-range", "", "invalid configuration: %s (%s) %d %s", r.field, r.flag, n, r.says)
		}
	}
}

// words are fields that take one of few words; an empty one stands for the default.
func (k *checker) words() {
	for _, w := range []struct {
		field, says string
		allowed     []string
	}{
		{"cpuManagerPolicy", "unknown policy: %q", []string{"none", "static"}},
		{"memoryManagerPolicy", "unknown policy: %q", []string{"None", "Static"}},
		{"topologyManagerPolicy", "invalid configuration: topologyManagerPolicy (--topology-manager-policy) %q must be one of", []string{"none", "best-effort", "restricted", "single-numa-node"}},
		{"topologyManagerScope", "invalid configuration: topologyManagerScope (--topology-manager-scope) %q must be one of", []string{"container", "pod"}},
		{"hairpinMode", "invalid configuration: option %q specified for hairpinMode (--hairpin-mode)", []string{"hairpin-veth", "promiscuous-bridge", "none"}},
	} {
		word := k.text(w.field)
		if word == "" || slices.Contains(w.allowed, word) {
			continue
		}
		k.fail([]string{w.field}, "config-unknown-word", choose(word, w.allowed), w.says, word)
	}
	if driver := k.text("cgroupDriver"); driver != "" && driver != "systemd" && driver != "cgroupfs" {
		k.warn([]string{"cgroupDriver"}, "config-unknown-word", choose(driver, []string{"systemd", "cgroupfs"}),
			"cgroupDriver %q is unknown: a runtime that reports its driver wins without a word, with another the kubelet exits", driver)
	}
}

func choose(word string, allowed []string) string {
	if near := nearest(word, allowed); near != "" {
		return "did you mean " + near + "?"
	}
	return "write one of " + strings.Join(allowed, ", ")
}

func (k *checker) enforcement() {
	list, _ := k.config.doc["enforceNodeAllocatable"].([]any)
	allowed := []string{"pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible", "none"}
	perQOS, set := k.config.doc["cgroupsPerQOS"].(bool)
	seen := map[string]bool{}
	for i, v := range list {
		word, ok := v.(string)
		path := []string{"enforceNodeAllocatable", strconv.Itoa(i)}
		if !ok {
			continue
		}
		owner := strings.TrimSuffix(strings.TrimSuffix(word, "-compressible"), "-reserved")
		switch {
		case seen[word]:
			k.fail(path, "config-enforcement", "name it once", "invalid configuration: duplicated enforcements %q in enforceNodeAllocatable (--enforce-node-allocatable)", word)
			continue
		case !slices.Contains(allowed, word):
			k.fail(path, "config-enforcement", choose(word, allowed), "invalid configuration: option %q specified for enforceNodeAllocatable (--enforce-node-allocatable)", word)
			continue
		case word == "none":
			if len(list) > 1 {
				k.fail(path, "config-enforcement", "keep none alone, or take it out", "invalid configuration: enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional enforcements when \"none\" is specified")
			}
			continue
		case owner == "system" || owner == "kube":
			if other := owner + "-reserved"; word != other && seen[other] || word == other && seen[other+"-compressible"] {
				k.fail(path, "config-enforcement", "keep one of the two", "invalid configuration: both %q and %q cannot be specified together in enforceNodeAllocatable (--enforce-node-allocatable)", other, other+"-compressible")
			}
			if field := owner + "ReservedCgroup"; k.text(field) == "" {
				k.fail(path, "config-enforcement", "name the cgroup in "+field+", it must exist when the kubelet starts; or take the word out",
					"invalid configuration: %s (--%s-reserved-cgroup) must be specified when %q or %q included in enforceNodeAllocatable (--enforce-node-allocatable)",
					field, owner, owner+"-reserved", owner+"-reserved-compressible")
			}
		}
		seen[word] = true
		if set && !perQOS {
			k.fail([]string{"cgroupsPerQOS"}, "config-enforcement", "set cgroupsPerQOS: true, or enforceNodeAllocatable: []",
				"invalid configuration: cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in enforceNodeAllocatable (--enforce-node-allocatable)", word)
		}
	}
}

func (k *checker) reserved(field, flag string) {
	resources := k.stringMap(field)
	known := []string{"cpu", "memory", "ephemeral-storage", "pid"}
	for _, name := range sortedKeys(resources) {
		path := []string{field, name}
		if !slices.Contains(known, name) {
			k.fail(path, "config-unknown-resource", choose(name, known), "%s value failed to parse: cannot reserve %q resource", flag, name)
			continue
		}
		q, err := resource.ParseQuantity(resources[name])
		if err != nil {
			k.fail(path, "config-bad-quantity", "write a number with a unit that Kubernetes knows, like 100Mi, 2Gi, 500m or 4",
				"%s value failed to parse: failed to parse quantity %q for %q resource: %s", flag, resources[name], name, err)
		} else if q.Sign() < 0 {
			k.fail(path, "config-bad-quantity", "reserve 0 or more", "%s value failed to parse: resource quantity for %q cannot be negative: %s", flag, name, resources[name])
		}
	}
}

func (k *checker) reservedCPUs() {
	list := k.text("reservedSystemCPUs")
	if list == "" {
		return
	}
	path := []string{"reservedSystemCPUs"}
	if _, err := ParseCPUList(list); err != nil {
		k.fail(path, "config-bad-cpu-list", "write CPU numbers and ranges, like 0-3,8", "invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) %s, error: %s", list, err)
	}
	if k.text("systemReservedCgroup") != "" || k.text("kubeReservedCgroup") != "" {
		k.fail(path, "config-reserved-cpus-and-cgroup", "take the cgroups out, or reserve cpu by quantity",
			"invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)")
	}
	for _, field := range []string{"kubeReserved", "systemReserved"} {
		if _, both := k.stringMap(field)["cpu"]; both {
			k.warn([]string{field, "cpu"}, "config-cpu-reserved-twice", "take cpu out, or reservedSystemCPUs",
				"reservedSystemCPUs is set too, and the kubelet drops this cpu without a word")
		}
	}
}

func (k *checker) staticCPU() {
	if k.text("cpuManagerPolicy") != "static" || k.text("reservedSystemCPUs") != "" {
		return
	}
	total, named := k.reservedSum("cpu")
	hint := "reserve cpu in kubeReserved or systemReserved, or CPUs in reservedSystemCPUs"
	switch {
	case !named:
		k.fail([]string{"cpuManagerPolicy"}, "config-static-without-reserved", hint, "[cpumanager] unable to determine reserved CPU resources for static policy")
	case total.IsZero():
		k.fail([]string{"cpuManagerPolicy"}, "config-static-without-reserved", hint, "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
	}
}

// reservedSum is kubeReserved and systemReserved of one resource; what does not parse was reported before.
func (k *checker) reservedSum(name string) (total resource.Quantity, named bool) {
	for _, field := range []string{"kubeReserved", "systemReserved"} {
		if text, ok := k.stringMap(field)[name]; ok {
			named = true
			if q, err := resource.ParseQuantity(text); err == nil {
				total.Add(q)
			}
		}
	}
	return total, named
}

// staticMemory compares reservedMemory with what the memory manager computes: kubeReserved + systemReserved +
// evictionHard. A threshold in percent depends on the machine, then nothing can be said here.
func (k *checker) staticMemory() {
	if k.text("memoryManagerPolicy") != "Static" {
		return
	}
	want, _ := k.reservedSum("memory")
	threshold, ok := EffectiveEvictionHard(k.config)["memory.available"]
	switch {
	case strings.HasSuffix(threshold, "%") && threshold != "0%" && threshold != "100%":
		return
	case ok && !strings.HasSuffix(threshold, "%"):
		q, err := resource.ParseQuantity(threshold)
		if err != nil {
			return
		}
		want.Add(q)
	}
	var got resource.Quantity
	list, _ := k.config.doc["reservedMemory"].([]any)
	for _, v := range list {
		node, _ := v.(map[string]any)
		limits, _ := node["limits"].(map[string]any)
		if limits["memory"] == nil {
			continue
		}
		q, err := resource.ParseQuantity(fmt.Sprint(limits["memory"]))
		if err != nil {
			return
		}
		got.Add(q)
	}
	if got.Cmp(want) != 0 {
		k.fail([]string{"reservedMemory"}, "config-reserved-memory-sum", fmt.Sprintf("let the memory of all NUMA nodes add up to kubeReserved + systemReserved + evictionHard = %s", want.String()),
			"the total amount %q of type \"memory\" is not equal to the value %q determined by Node Allocatable feature", got.String(), want.String())
	}
}

func (k *checker) taints() {
	list, _ := k.config.doc["registerWithTaints"].([]any)
	var seen []Taint
	for i, v := range list {
		object, ok := v.(map[string]any)
		if !ok {
			continue
		}
		var t Taint
		t.Key, _ = object["key"].(string)
		t.Value, _ = object["value"].(string)
		t.Effect, _ = object["effect"].(string)
		path := []string{"registerWithTaints", strconv.Itoa(i)}
		if err := t.Check(); err != nil {
			k.fail(path, "config-bad-taint", err.Error(), "invalid taint: {%s %s %s <nil>}", t.Key, t.Value, t.Effect)
		}
		if slices.ContainsFunc(seen, t.same) {
			k.fail(path, "config-bad-taint", "keep one of them", "duplicated taints with the same key and effect: %s; the Node is refused", t)
		}
		seen = append(seen, t)
	}
}

func (k *checker) dns() {
	list, _ := k.config.doc["clusterDNS"].([]any)
	for i, v := range list {
		if s, ok := v.(string); ok {
			if _, err := netip.ParseAddr(s); err != nil {
				k.warn([]string{"clusterDNS", strconv.Itoa(i)}, "config-bad-address", "write the address of the cluster's DNS service", "%q is no IP address: the kubelet runs, and pods cannot resolve names", s)
			}
		}
	}
}
