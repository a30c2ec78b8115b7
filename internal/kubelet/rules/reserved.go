package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
)

// enforcementRules mind enforceNodeAllocatable and what goes with it.
func enforcementRules() []Rule {
	return []Rule{{ID: "config-enforcement", Minds: "`enforceNodeAllocatable` with an unknown word, one twice, without its cgroup, without an amount, or without QoS cgroups", Does: Exits, Severity: Error, Source: validation + "; pkg/kubelet/cm/node_container_manager_linux.go, enforceExistingCgroup", check: (*look).enforcement}}
}

func (l *look) enforcement() {
	allowed := []string{"pods", "system-reserved", "kube-reserved", "none"}
	if l.minor >= 32 {
		allowed = []string{"pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible", "none"}
	}
	list := l.list("enforceNodeAllocatable")
	seen := map[string]bool{}
	for i, v := range list {
		l.fresh()
		word, ok := textOrNull(v)
		path := []string{"enforceNodeAllocatable", strconv.Itoa(i)}
		if !ok {
			continue
		}
		owner := strings.TrimSuffix(strings.TrimSuffix(word, "-compressible"), "-reserved")
		switch {
		case seen[word]:
			if l.minor >= 31 {
				l.at(path, "name it once", "invalid configuration: duplicated enforcements %q in enforceNodeAllocatable (--enforce-node-allocatable)", word)
			}
			continue
		case !slices.Contains(allowed, word):
			l.at(path, choose(word, allowed), "invalid configuration: option %q specified for enforceNodeAllocatable (--enforce-node-allocatable)", word)
			continue
		case word == "none":
			if len(list) > 1 {
				l.at(path, "keep none alone, or take it out", "invalid configuration: enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional enforcements when \"none\" is specified")
			}
			continue
		case owner == "system" || owner == "kube":
			if other := owner + "-reserved"; word != other && seen[other] || word == other && seen[other+"-compressible"] {
				l.at(path, "keep one of the two", "invalid configuration: both %q and %q cannot be specified together in enforceNodeAllocatable (--enforce-node-allocatable)", other, other+"-compressible")
			}
			if field := owner + "ReservedCgroup"; l.text(field) == "" {
				l.at(path, "name the cgroup in "+field+", it must exist when the kubelet starts; or take the word out",
					"invalid configuration: %s (--%s-reserved-cgroup) must be specified when %q or %q included in enforceNodeAllocatable (--enforce-node-allocatable)",
					field, owner, owner+"-reserved", owner+"-reserved-compressible")
			} else if amounts, _ := l.inner(owner + "Reserved").(map[string]any); len(amounts) == 0 {
				l.at(path, "set "+owner+"Reserved, or take the word out", "Failed to enforce %s Reserved Cgroup Limits on %q: cgroup is not configured properly (nothing is in %sReserved)", strings.ToUpper(owner[:1])+owner[1:], l.text(field), owner)
			}
		}
		seen[word] = true
		l.fresh()
		if !l.boolean("cgroupsPerQOS", true) {
			l.field("cgroupsPerQOS", "set cgroupsPerQOS: true, or enforceNodeAllocatable: []",
				"invalid configuration: cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in enforceNodeAllocatable (--enforce-node-allocatable)", word)
		}
	}
	// Where the list is missing, its default holds: pods.
	l.fresh()
	if l.doc != nil && l.inner("enforceNodeAllocatable") == nil && !l.boolean("cgroupsPerQOS", true) {
		l.field("cgroupsPerQOS", "set enforceNodeAllocatable: [] too",
			"invalid configuration: cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in enforceNodeAllocatable (--enforce-node-allocatable)", "pods")
	}
}

// reservedRules mind what is kept from pods.
func reservedRules() []Rule {
	parse := "cmd/kubelet/app/server.go, parseResourceList"
	each := func(f func(l *look, field, flag, name, value string)) func(*look) {
		return func(l *look) {
			for _, r := range [][2]string{{"kubeReserved", "--kube-reserved"}, {"systemReserved", "--system-reserved"}} {
				m := l.stringMap(r[0])
				for _, name := range sorted(m) {
					f(l, r[0], r[1], name, m[name])
				}
			}
		}
	}
	names := []string{"cpu", "memory", "ephemeral-storage", "pid"}
	return []Rule{
		{ID: "config-unknown-resource", Minds: "a resource that cannot be reserved", Does: Exits, Severity: Error, Alone: true, Source: parse, check: each(func(l *look, field, flag, name, _ string) {
			if !slices.Contains(names, name) {
				l.at([]string{field, name}, choose(name, names), "%s value failed to parse: cannot reserve %q resource", flag, name)
			}
		})},
		{ID: badQuantity, Minds: "a malformed or negative quantity", Does: Exits, Severity: Error, Alone: true, Source: parse, check: each(func(l *look, field, flag, name, value string) {
			if !slices.Contains(names, name) {
				return
			}
			if q, err := resource.ParseQuantity(value); err != nil {
				l.at([]string{field, name}, quantityHint, "%s value failed to parse: failed to parse quantity %q for %q resource: %s", flag, value, name, err)
			} else if q.Sign() < 0 {
				l.at([]string{field, name}, "reserve 0 or more", "%s value failed to parse: resource quantity for %q cannot be negative: %s", flag, name, value)
			}
		})},
		{ID: "config-tiny-amount", Minds: "an amount of memory or storage below 16Mi that is not 0: a number without its unit", Does: Swallows, Severity: Warning, Alone: true, Source: parse, check: (*look).tinyAmounts},
		{ID: "config-bad-cpu-list", Minds: "a malformed list of CPUs", Does: Exits, Severity: Error, Alone: true, Source: validation, check: func(l *look) {
			if list := l.text("reservedSystemCPUs"); list != "" {
				if _, err := kubelet.ParseCPUSet(list); err != nil {
					l.field("reservedSystemCPUs", "write CPU numbers and ranges, like 0-3,8", "invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) %s, error: %s", list, err)
				}
			}
		}},
		{ID: "config-reserved-cpus-and-cgroup", Minds: "reserved CPUs together with a reserved cgroup", Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			for _, cgroup := range []string{"systemReservedCgroup", "kubeReservedCgroup"} {
				l.fresh()
				if l.text("reservedSystemCPUs") == "" || l.text(cgroup) == "" {
					continue
				}
				l.field("reservedSystemCPUs", "take the cgroups out, or reserve cpu by quantity",
					"invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)")
			}
		}},
		{ID: "config-cpu-reserved-twice", Minds: "cpu reserved by quantity, and CPUs by number: the quantity is dropped", Does: Swallows, Severity: Warning, Source: "cmd/kubelet/app/server.go, run", check: func(l *look) {
			for _, field := range []string{"kubeReserved", "systemReserved"} {
				l.fresh()
				if _, both := l.entry(field, "cpu"); both && l.text("reservedSystemCPUs") != "" {
					l.at([]string{field, "cpu"}, "take cpu out, or reservedSystemCPUs", "reservedSystemCPUs is set too, and the kubelet drops this cpu without a word")
				}
			}
		}},
		{ID: "config-static-without-reserved", Minds: "the static CPU manager without a reserved CPU", Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/cpumanager/cpu_manager.go", check: func(l *look) {
			if l.text("cpuManagerPolicy") != "static" || l.text("reservedSystemCPUs") != "" {
				return
			}
			// One of nothing counts as none.
			if total := l.reservedSum("cpu"); total.IsZero() {
				l.field("cpuManagerPolicy", "reserve cpu in kubeReserved or systemReserved, or CPUs in reservedSystemCPUs", "[cpumanager] unable to determine reserved CPU resources for static policy")
			}
		}},
		{ID: "config-qos-reserved", Minds: "`qosReserved` of anything but memory in percent", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/cm/container_manager.go, ParseQOSReserved", check: func(l *look) {
			m := l.stringMap("qosReserved")
			for _, name := range sorted(m) {
				number, isPercent := strings.CutSuffix(m[name], "%")
				n, err := strconv.Atoi(number)
				switch {
				case name != "memory":
					l.at([]string{"qosReserved", name}, "only memory can be", "--qos-reserved value failed to parse: cannot reserve %q resource", name)
				case !isPercent || err != nil || n < 0 || n > 100:
					l.at([]string{"qosReserved", name}, "write a number and %, like 50%", "--qos-reserved value failed to parse: failed to parse percentage %q for %q resource", m[name], name)
				}
			}
		}},
		{ID: "config-reserved-memory-sum", Minds: "`reservedMemory` that does not add up to what is reserved", Since: 21, Does: Exits, Severity: Error, Source: "pkg/kubelet/cm/memorymanager/memory_manager.go, validateReservedMemory", check: (*look).staticMemory},
		{ID: "config-reserved-memory", Minds: "`reservedMemory` of an unknown kind, of zero, or of one node twice", Since: 21, Does: Exits, Severity: Error, Source: "pkg/kubelet/apis/config/validation/validation_reserved_memory.go", check: (*look).reservedMemory},
		{ID: "config-reserved-memory-unused", Minds: "`reservedMemory` without the static memory manager", Since: 21, Does: Swallows, Severity: Warning, Source: "pkg/kubelet/cm/memorymanager/memory_manager.go, NewManager", check: func(l *look) {
			if p := l.text("memoryManagerPolicy"); len(l.list("reservedMemory")) > 0 && (p == "" || p == "None") {
				l.field("reservedMemory", "set memoryManagerPolicy: Static, or take it out", "without memoryManagerPolicy: Static this has no effect")
			}
		}},
	}
}

// tinyAmounts minds bytes where Gi was meant: the kubelet takes them, and keeps next to nothing.
func (l *look) tinyAmounts() {
	check := func(path []string, text string) {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() <= 0 || q.CmpInt64(kubelet.LeastAmount) >= 0 {
			return
		}
		hint := "write 16Mi or more, or 0"
		if strings.Trim(text, "0123456789") == "" && len(text) <= 4 {
			hint = "write a unit: " + text + "Gi"
		}
		l.at(path, hint, "%s is %s bytes: as good as nothing", text, q.AsDec())
	}

	for _, field := range []string{"kubeReserved", "systemReserved"} {
		for _, name := range []string{"ephemeral-storage", "memory"} {
			if text, ok := l.entry(field, name); ok {
				check([]string{field, name}, text)
			}
		}
	}
	for _, field := range []string{"evictionHard", "evictionSoft", "evictionMinimumReclaim"} {
		amounts := l.stringMap(field)
		for _, signal := range sorted(amounts) {
			if strings.HasSuffix(signal, ".available") && signal != "pid.available" {
				check([]string{field, signal}, amounts[signal])
			}
		}
	}
	for i, v := range l.list("reservedMemory") {
		entry, _ := v.(map[string]any)
		limits, _ := entry["limits"].(map[string]any)
		if limits["memory"] != nil {
			check([]string{"reservedMemory", strconv.Itoa(i), "limits", "memory"}, fmt.Sprint(limits["memory"]))
		}
	}
}

// reservedSum is kubeReserved and systemReserved of one resource; what does not parse was reported before.
func (l *look) reservedSum(name string) (total resource.Quantity) {
	for _, field := range []string{"kubeReserved", "systemReserved"} {
		total.Add(l.amount(field, name))
	}

	return total
}

// amount is one resource that a field reserves.
func (l *look) amount(field, name string) resource.Quantity {
	text, _ := l.entry(field, name)
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	if name == "cpu" && l.minor >= 37 { // rounded as cmd/kubelet/app/server.go, parseResourceList, does it, with what is too large for it
		q.SetMilli((q.ScaledValue(resource.Micro) + 500) / 1000)
	}

	return q
}

// hardAmount is what evictionHard keeps from pods for a signal, of a capacity in bytes that is 0 where it is unknown.
func (l *look) hardAmount(signal string, capacity int64) (q resource.Quantity, ok bool) {
	for _, f := range l.Flags {
		if ignores, err := strconv.ParseBool(f.Value); f.Name == kubelet.IgnoreEvictionFlag && err == nil && ignores {
			return q, true
		}
	}
	l.reads([]string{"evictionHard", signal})
	thresholds := kubelet.EvictionHardOf(l.doc)
	if l.Config != nil && !l.flagged["evictionHard"] {
		thresholds = kubelet.EffectiveEvictionHard(l.Config, l.Version)
	}
	threshold := thresholds[signal]
	if kubelet.IsThresholdOff(threshold) {
		return q, true
	}

	part, isPercent, err := kubelet.ParsePercentage(threshold)
	switch {
	case err != nil, part != part: // config-bad-threshold reports them
		return q, false
	case !isPercent:
		q, err = resource.ParseQuantity(threshold)
		return q, err == nil
	}

	return *resource.NewQuantity(int64(float64(capacity)*float64(part)), resource.BinarySI), capacity > 0
}

// staticMemory compares reservedMemory with what the memory manager computes: kubeReserved + systemReserved +
// evictionHard. A threshold in percent depends on the machine: without one nothing can be said.
func (l *look) staticMemory() {
	if l.text("memoryManagerPolicy") != "Static" {
		return
	}
	capacity := int64(0)
	if l.Machine != nil {
		capacity = l.Machine.MemoryBytes
	}
	want := l.reservedSum("memory")
	hard, ok := l.hardAmount("memory.available", capacity)
	if !ok {
		return
	}
	want.Add(hard)
	var got resource.Quantity
	for i, v := range l.list("reservedMemory") {
		node, _ := v.(map[string]any)
		limits, _ := node["limits"].(map[string]any)
		for _, name := range sorted(limits) { // nothing else can reserve huge pages, so the two never agree
			if q, err := resource.ParseQuantity(fmt.Sprint(limits[name])); err == nil && strings.HasPrefix(name, "hugepages-") && q.Sign() > 0 {
				l.at([]string{"reservedMemory", strconv.Itoa(i), "limits", name}, "take it out", "the total amount %q of type %q is not equal to the value \"0\" determined by Node Allocatable feature", q.String(), name)
			}
		}
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
		l.field("reservedMemory", fmt.Sprintf("let the memory of all NUMA nodes add up to kubeReserved + systemReserved + evictionHard = %s", want.String()),
			"the total amount %q of type \"memory\" is not equal to the value %q determined by Node Allocatable feature", got.String(), want.String())
	}
}

func (l *look) reservedMemory() {
	type limit struct{ node, name string }
	seen := map[limit]bool{}
	for i, v := range l.list("reservedMemory") {
		entry, _ := v.(map[string]any)
		limits, _ := entry["limits"].(map[string]any)
		node := fmt.Sprint(entry["numaNode"])
		if entry["numaNode"] == nil {
			node = "0"
		}
		for _, name := range sorted(limits) {
			path := []string{"reservedMemory", strconv.Itoa(i), "limits", name}
			if name != "memory" && !strings.HasPrefix(name, "hugepages-") {
				l.at(path, "reserve memory or hugepages-SIZE", "invalid configuration: the limit type %q for NUMA node %s is not supported", name, node)
			}
			if q, err := resource.ParseQuantity(fmt.Sprint(limits[name])); err == nil && q.IsZero() {
				l.at(path, "take it out", "invalid configuration: reserved memory may not be zero for NUMA node %s and resource %q", node, name)
			}
			if seen[limit{node, name}] {
				l.at(path, "keep one of them", "invalid configuration: the reserved memory has a duplicate value for NUMA node %s and resource %q", node, name)
			}
			seen[limit{node, name}] = true
		}
	}
}
