package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/quantity"
)

const (
	resourceListSource  = "cmd/kubelet/app/server.go, parseResourceList"
	memoryManagerSource = "pkg/kubelet/cm/memorymanager/memory_manager.go"
)

const (
	enforcementField = "enforceNodeAllocatable"
	enforcedWords    = enforcementField + ".*"
	enforcementFlag  = enforcementField + " (--enforce-node-allocatable)"
	needsQoSCgroups  = "cgroupsPerQOS (--cgroups-per-qos) must be set to true when \"{why}\" contained in " +
		enforcementFlag
	memoryLimits = "reservedMemory.*.limits.*"
)

// reservationRules returns the rules about reserved resources.
func reservationRules() []Rule {
	return []Rule{
		lists(exits("config-enforcement", 0,
			"`enforceNodeAllocatable` with an unknown word, a duplicate, without its cgroup, without an amount, or "+
				"without QoS cgroups",
			validation+"; pkg/kubelet/cm/node_container_manager_linux.go, enforceExistingCgroup",
			invalid(enforcedWords, isBadEnforcement, "", "{why}"),
			at(enforcedWords, lacksReservation, "", ""),
			invalid(enforcedWords, lacksQoSCgroups, "set cgroupsPerQOS: true, or enforceNodeAllocatable: []",
				needsQoSCgroups),
			invalid("cgroupsPerQOS", lacksDefaultCgroups, "set enforceNodeAllocatable: [] too", needsQoSCgroups))),

		lists(exits("config-unknown-resource", 0, "a resource that cannot be reserved", resourceListSource,
			at("kubeReserved.*", isUnknownResource, "",
				`--kube-reserved value failed to parse: cannot reserve "{key}" resource`),
			at("systemReserved.*", isUnknownResource, "",
				`--system-reserved value failed to parse: cannot reserve "{key}" resource`))),

		ignores("config-tiny-amount", 0,
			"an amount of memory or storage below 16Mi that is not 0: a number without its unit",
			resourceListSource,
			at("kubeReserved.* systemReserved.* evictionHard.* evictionSoft.* evictionMinimumReclaim.* "+memoryLimits,
				isTiny, "write 16Mi or more, or 0", "{value} is only {why} bytes")),

		exits("config-bad-cpu-list", 0, "a malformed list of CPUs", validation,
			invalid("reservedSystemCPUs", rejectedBy(kubelet.ParseCPUSet), "write CPU numbers and ranges, like 0-3,8",
				"unable to parse reservedSystemCPUs (--reserved-cpus) {value}, error: {why}")),

		exits("config-reserved-cpus-and-cgroup", 0, "reserved CPUs together with a reserved cgroup", validation,
			invalid("systemReservedCgroup kubeReservedCgroup", isUsedWithCPUs,
				"remove the cgroups, or reserve cpu by quantity",
				"can't use reservedSystemCPUs (--reserved-cpus) with "+
					"systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)")),

		ignores("config-cpu-reserved-twice", 0,
			"cpu reserved by quantity and CPUs reserved by number: the quantity is ignored",
			"cmd/kubelet/app/server.go, run",
			at("kubeReserved.cpu systemReserved.cpu",
				func(v value) bool { return hasText(v) && v.has("reservedSystemCPUs") },
				"remove cpu, or reservedSystemCPUs",
				"reservedSystemCPUs is set too, so the kubelet silently ignores this amount")),

		exits("config-static-without-reserved", 0, "the static CPU manager without a reserved CPU",
			"pkg/kubelet/cm/cpumanager/cpu_manager.go",
			at("cpuManagerPolicy", lacksReservedCPU,
				"reserve cpu in kubeReserved or systemReserved, or CPUs in reservedSystemCPUs",
				"[cpumanager] unable to determine reserved CPU resources for static policy")),

		lists(exits("config-qos-reserved", 0, "`qosReserved` of anything but memory in percent",
			"pkg/kubelet/cm/container_manager.go, ParseQOSReserved",
			at("qosReserved.*", isBadQoSAmount, "", "--qos-reserved value failed to parse: {why}"))),

		exits("config-reserved-memory-sum", 21, "`reservedMemory` whose sum differs from the reserved memory",
			memoryManagerSource+", validateReservedMemory",
			by(reportMemorySum)),

		exits("config-static-memory-without-reserved", 21, "the static memory manager without reserved memory",
			"pkg/kubelet/cm/memorymanager/policy_static.go, NewPolicyStatic",
			at("memoryManagerPolicy", lacksReservedMemory,
				"reserve memory in kubeReserved or systemReserved, and the same in reservedMemory",
				"[memorymanager] you should specify the system reserved memory")),

		exits("config-reserved-memory", 21, "`reservedMemory` of an unknown type, of zero, or with a duplicate",
			"pkg/kubelet/apis/config/validation/validation_reserved_memory.go",
			invalid(memoryLimits, isOtherMemory, "reserve memory or hugepages-SIZE",
				`the limit type "{key}" for NUMA node {why} is not supported`),
			invalid(memoryLimits, isZeroMemory, "remove it",
				`reserved memory may not be zero for NUMA node {why} and resource "{key}"`),
			invalid(memoryLimits, isRepeatedMemory, "remove the duplicate",
				`the reserved memory has a duplicate value for NUMA node {why} and resource "{key}"`)),

		ignores("config-reserved-memory-unused", 21, "`reservedMemory` without the static memory manager",
			memoryManagerSource+", NewManager",
			at("reservedMemory",
				func(v value) bool { return v.textOf("memoryManagerPolicy") == "None" && hasElements(v) },
				"set memoryManagerPolicy: Static, or remove it",
				"without memoryManagerPolicy: Static this has no effect")),
	}
}

// isBadEnforcement reports a word that is unknown, repeated, or not alone.
func isBadEnforcement(v value) bool {
	word := v.text()
	valid := []string{"pods", "system-reserved", "kube-reserved", "none"}
	if v.minor >= 32 {
		valid = append(valid, "system-reserved-compressible", "kube-reserved-compressible")
	}
	switch {
	case !slices.Contains(valid, word):
		return v.because(suggest(word, valid), `option "{value}" specified for `+enforcementFlag)
	case word == "none":
		return len(v.listOf(enforcementField)) > 1 && v.because("keep none alone, or remove it",
			enforcementFlag+` may not contain additional enforcements when "none" is specified`)
	case v.isBefore(word):
		return v.minor >= 31 && v.because("remove the duplicate",
			`duplicated enforcements "{value}" in `+enforcementFlag)
	}

	return false
}

// isBefore reports whether a list has a word before an element.
func (v value) isBefore(word string) bool {
	return slices.Contains(v.listOf(enforcementField)[:v.index()], any(word))
}

// findOwner returns system or kube, whose resources a word enforces; "" for other words.
func findOwner(word string) string {
	owner, isReserved := strings.CutSuffix(strings.TrimSuffix(word, "-compressible"), "-reserved")
	if !isReserved {
		return ""
	}

	return owner
}

func capitalize(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// lacksReservation reports a word without the cgroup or the amounts that it enforces, or with its other form.
func lacksReservation(v value) bool {
	owner := findOwner(v.text())
	if owner == "" || isBadEnforcement(v) || v.isBefore(v.text()) {
		return false
	}
	if v.isBefore(owner+"-reserved") || v.isBefore(owner+"-reserved-compressible") {
		return v.because("keep one of the two", `invalid configuration: both "%s-reserved" and `+
			`"%[1]s-reserved-compressible" cannot be specified together in `+enforcementFlag, owner)
	}

	cgroup := v.textOf(owner + "ReservedCgroup")
	if cgroup == "" {
		return v.because(
			"set "+owner+"ReservedCgroup to a cgroup that exists when the kubelet starts; or remove the word",
			`invalid configuration: %sReservedCgroup (--%[1]s-reserved-cgroup) must be specified when `+
				`"%[1]s-reserved" or "%[1]s-reserved-compressible" included in `+enforcementFlag, owner)
	}

	return len(namesIn(v.valueAt(owner+"Reserved"))) == 0 && v.because("set "+owner+"Reserved, or remove the word",
		"Failed to enforce %s Reserved Cgroup Limits on %q: cgroup is not configured properly (%sReserved is empty)",
		capitalize(owner), cgroup, owner)
}

func lacksQoSCgroups(v value) bool {
	if v.text() == "none" || isBadEnforcement(v) {
		return false
	}
	v.place = "cgroupsPerQOS"
	v.why = v.text()

	return !v.isOn("cgroupsPerQOS")
}

// lacksDefaultCgroups: the default of the list is pods.
func lacksDefaultCgroups(v value) bool {
	v.why = "pods"

	return v.config != nil && v.valueAt(enforcementField) == nil && !v.isOn("cgroupsPerQOS")
}

func isUnknownResource(v value) bool { return v.isOther(v.key(), reservableResources) }

var (
	reservableResources = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	reservedFields      = []string{"kubeReserved", "systemReserved"}
)

// isTiny reports bytes where the unit was probably forgotten.
func isTiny(v value) bool {
	kind, isSignal := strings.CutSuffix(v.key(), ".available")
	isBytes := kind == "memory" || kind == "ephemeral-storage" || isSignal && kind != "pid"
	amount, err := v.amount()
	if !isBytes || err != nil || amount.Sign() <= 0 || amount.CmpInt64(kubelet.MinAmount) >= 0 {
		return false
	}
	hint := ""
	if text := fmt.Sprint(v.raw); strings.Trim(text, "0123456789") == "" && len(text) <= 4 {
		hint = "write a unit: " + text + "Gi"
	}

	return v.because(hint, "%s", amount.AsDec())
}

func isUsedWithCPUs(v value) bool {
	v.place = "reservedSystemCPUs"

	return hasText(v) && v.has("reservedSystemCPUs")
}

func lacksReservedCPU(v value) bool {
	return v.text() == "static" && !v.has("reservedSystemCPUs") && v.sumReserved("cpu").IsZero()
}

func isBadQoSAmount(v value) bool {
	text, isPercent := strings.CutSuffix(v.text(), "%")
	n, err := strconv.Atoi(text)
	switch {
	case v.key() != "memory":
		return v.because("remove it: only memory can be reserved", `cannot reserve "{key}" resource`)
	case !isPercent || err != nil || n < 0 || n > 100:
		return v.because("write a number and %, like 50%", `failed to parse percentage "{value}" for "{key}" resource`)
	}

	return false
}

// sumReserved returns the sum of kubeReserved and systemReserved of a resource. Malformed amounts count as 0.
func (c *checker) sumReserved(name string) *resource.Quantity {
	sum := &resource.Quantity{}
	for _, field := range reservedFields {
		sum.Add(c.reservedAmount(field, name))
	}

	return sum
}

func (c *checker) reservedAmount(field, name string) resource.Quantity {
	text, _ := c.lookUp(field, name).(string)
	amount, err := quantity.Parse(text)
	if err != nil {
		return resource.Quantity{}
	}
	if name == "cpu" && c.minor >= 37 {
		// Rounded, with its overflow: cmd/kubelet/app/server.go, parseResourceList.
		amount.SetMilli((amount.ScaledValue(resource.Micro) + 500) / 1000)
	}

	return amount
}

// evictionAmount returns the bytes that evictionHard keeps from pods for a signal. A percentage is unknown without a
// capacity.
func (c *checker) evictionAmount(signal string, capacity int64) (amount resource.Quantity, isKnown bool) {
	if ignores, _ := strconv.ParseBool(c.given[kubelet.IgnoreEvictionFlag]); ignores {
		return amount, true
	}

	c.lookUp("evictionHard", signal) // a part of a configuration may lack it
	thresholds := kubelet.EvictionHardOf(c.config)
	if c.Config != nil && c.flagOf["evictionHard"] == "" {
		thresholds = kubelet.EffectiveEvictionHard(c.Config, c.Version)
	}
	threshold := thresholds[signal]
	if kubelet.IsThresholdOff(threshold) {
		return amount, true
	}

	part, isPercent, err := kubelet.ParsePercentage(threshold)
	if err != nil || math.IsNaN(float64(part)) { // config-bad-threshold reports it, and NaN
		return amount, false
	}
	if !isPercent {
		amount, err = quantity.Parse(threshold)

		return amount, err == nil
	}

	return *resource.NewQuantity(int64(float64(capacity)*float64(part)), resource.BinarySI), capacity > 0
}

// reportMemorySum compares reservedMemory with the sum that the memory manager wants: kubeReserved + systemReserved +
// evictionHard.
func reportMemorySum(c *checker) {
	const unequal = "the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature"
	want := c.sumReserved("memory")
	threshold, isKnown := c.evictionAmount("memory.available", c.Machine.MemoryBytes)
	if !isKnown || c.textOf("memoryManagerPolicy") != "Static" {
		return
	}
	want.Add(threshold)

	var got resource.Quantity
	for _, path := range c.places(memoryLimits) {
		v := value{c, path, c.lookUp(path...)}
		amount, err := v.amount()
		switch {
		case v.raw == nil:
		case err != nil: // config-bad-quantity reports it
			return
		case v.key() == "memory":
			got.Add(amount)
		case strings.HasPrefix(v.key(), "hugepages-") && amount.Sign() > 0: // nothing else reserves huge pages
			c.reportAt(path, "remove it", unequal, amount.String(), v.key(), "0")
		}
	}
	if got.Cmp(*want) != 0 {
		c.report("reservedMemory", "change the sum of all NUMA nodes' memory to kubeReserved + systemReserved + "+
			"evictionHard = "+want.String(), unequal, got.String(), "memory", want.String())
	}
}

// lacksReservedMemory reports a static memory manager with nothing to reserve. config-reserved-memory-sum compares
// reservedMemory.
func lacksReservedMemory(v value) bool {
	threshold, isKnown := v.evictionAmount("memory.available", 0)
	isReserved := func(path []string) bool { return path[3] == "memory" }

	return v.text() == "Static" && isKnown && threshold.IsZero() && v.sumReserved("memory").IsZero() &&
		!slices.ContainsFunc(v.places(memoryLimits), isReserved)
}

// numaNode returns the NUMA node of a limit in reservedMemory.
func (v value) numaNode() string {
	node := dig(v.config, v.path[0], v.path[1], "numaNode")
	if node == nil {
		return "0"
	}

	return fmt.Sprint(node)
}

func isOtherMemory(v value) bool {
	v.why = v.numaNode()

	return v.raw != nil && v.key() != "memory" && !strings.HasPrefix(v.key(), "hugepages-")
}

func isZeroMemory(v value) bool {
	amount, err := v.amount()
	v.why = v.numaNode()

	return err == nil && amount.IsZero()
}

func isRepeatedMemory(v value) bool {
	v.why = v.numaNode()

	return v.raw != nil && v.isRepeated(memoryLimits, func(v value) string { return v.numaNode() + v.key() })
}
