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

// reservationRules returns the rules about reserved resources.
func reservationRules() []Rule {
	return []Rule{
		{
			ID:    "config-enforcement",
			Lists: true,
			Summary: "`enforceNodeAllocatable` with an unknown word, a duplicate, without its cgroup, without " +
				"an amount, " +
				"or without QoS cgroups",
			Source: validation + "; pkg/kubelet/cm/node_container_manager_linux.go, enforceExistingCgroup",
			check:  checkEnforcement,
		},
		{
			ID:      "config-unknown-resource",
			Lists:   true,
			Summary: "a resource that cannot be reserved",
			Source:  resourceListSource,
			check:   checkResourceNames,
		},
		{
			ID:      "config-tiny-amount",
			Summary: "an amount of memory or storage below 16Mi that is not 0: a number without its unit",
			Effect:  Ignores,
			Source:  resourceListSource,
			check:   checkTinyAmounts,
		},
		{
			ID:      "config-bad-cpu-list",
			Summary: "a malformed list of CPUs",
			Source:  validation,
			check:   checkCPUList,
		},
		{
			ID:      "config-reserved-cpus-and-cgroup",
			Summary: "reserved CPUs together with a reserved cgroup",
			Source:  validation,
			check:   checkCPUsAndCgroup,
		},
		{
			ID:      "config-cpu-reserved-twice",
			Summary: "cpu reserved by quantity and CPUs reserved by number: the quantity is ignored",
			Effect:  Ignores,
			Source:  "cmd/kubelet/app/server.go, run",
			check:   checkCPUReservedTwice,
		},
		{
			ID:      "config-static-without-reserved",
			Summary: "the static CPU manager without a reserved CPU",
			Source:  "pkg/kubelet/cm/cpumanager/cpu_manager.go",
			check:   checkStaticCPUs,
		},
		{
			ID:      "config-qos-reserved",
			Lists:   true,
			Summary: "`qosReserved` of anything but memory in percent",
			Source:  "pkg/kubelet/cm/container_manager.go, ParseQOSReserved",
			check:   checkQoSReserved,
		},
		{
			ID:      "config-reserved-memory-sum",
			Summary: "`reservedMemory` whose sum differs from the reserved memory",
			Since:   21,
			Source:  memoryManagerSource + ", validateReservedMemory",
			check:   checkStaticMemory,
		},
		{
			ID:      "config-static-memory-without-reserved",
			Summary: "the static memory manager without reserved memory",
			Since:   21,
			Source:  "pkg/kubelet/cm/memorymanager/policy_static.go, NewPolicyStatic",
			check:   checkSomeMemory,
		},
		{
			ID:      "config-reserved-memory",
			Summary: "`reservedMemory` of an unknown type, of zero, or with a duplicate",
			Since:   21,
			Source:  "pkg/kubelet/apis/config/validation/validation_reserved_memory.go",
			check:   checkReservedMemory,
		},
		{
			ID:      "config-reserved-memory-unused",
			Summary: "`reservedMemory` without the static memory manager",
			Since:   21,
			Effect:  Ignores,
			Source:  memoryManagerSource + ", NewManager",
			check:   checkUnusedMemory,
		},
	}
}

const (
	enforcementField = "enforceNodeAllocatable"
	enforcementFlag  = enforcementField + " (--enforce-node-allocatable)"
	needsQoSCgroups  = "invalid configuration: cgroupsPerQOS (--cgroups-per-qos) must be set to true " +
		"when %q contained in " + enforcementFlag
)

func checkEnforcement(c *checker) {
	valid := []string{"pods", "system-reserved", "kube-reserved", "none"}
	if c.minor >= 32 {
		valid = append(valid, "system-reserved-compressible", "kube-reserved-compressible")
	}
	seen := map[string]bool{}
	for i, word := range c.textsAt(enforcementField) {
		c.startFinding()
		path := []string{enforcementField, strconv.Itoa(i)}
		switch {
		case seen[word]:
			if c.minor >= 31 {
				c.reportAt(path, "remove the duplicate",
					"invalid configuration: duplicated enforcements %q in "+enforcementFlag, word)
			}
		case !slices.Contains(valid, word):
			c.reportAt(path, suggest(word, valid),
				"invalid configuration: option %q specified for "+enforcementFlag, word)
		case word == "none":
			if len(c.listAt(enforcementField)) > 1 {
				c.reportAt(path, "keep none alone, or remove it",
					"invalid configuration: "+enforcementFlag+
						" may not contain additional enforcements when \"none\" is specified")
			}
		default:
			c.checkEnforcedWord(path, word, seen)
			seen[word] = true
		}
	}

	// The default of the list is pods.
	c.startFinding()
	isUnset := c.config != nil && c.valueAt(enforcementField) == nil
	if isUnset && !c.boolAt("cgroupsPerQOS", true) {
		c.reportField("cgroupsPerQOS", "set enforceNodeAllocatable: [] too", needsQoSCgroups, "pods")
	}
}

// checkEnforcedWord checks the requirements of a word. seen are the words before it.
func (c *checker) checkEnforcedWord(path []string, word string, seen map[string]bool) {
	if owner := findOwner(word); owner != "" {
		c.checkEnforcedOwner(path, owner, word, seen)
	}
	c.startFinding()
	if !c.boolAt("cgroupsPerQOS", true) {
		c.reportField("cgroupsPerQOS", "set cgroupsPerQOS: true, or enforceNodeAllocatable: []",
			needsQoSCgroups, word)
	}
}

// findOwner returns system or kube, whose resources a word enforces; "" for other words.
func findOwner(word string) string {
	owner, isReserved := strings.CutSuffix(strings.TrimSuffix(word, "-compressible"), "-reserved")
	if !isReserved {
		return ""
	}

	return owner
}

func (c *checker) checkEnforcedOwner(path []string, owner, word string, seen map[string]bool) {
	whole := owner + "-reserved"
	compressible := whole + "-compressible"
	other := map[string]string{whole: compressible, compressible: whole}[word]
	if seen[other] {
		c.reportAt(path, "keep one of the two", "invalid configuration: "+
			"both %q and %q cannot be specified together in "+enforcementFlag, whole, compressible)
	}

	field := owner + "ReservedCgroup"
	cgroup := c.textAt(field)
	if cgroup == "" {
		c.reportAt(path,
			"set "+field+" to a cgroup that exists when the kubelet starts; or remove the word",
			"invalid configuration: %s (--%s-reserved-cgroup) must be specified when "+
				"%q or %q included in "+enforcementFlag, field, owner, whole, compressible)

		return
	}
	amounts, _ := c.valueAt(owner + "Reserved").(map[string]any)
	if len(amounts) == 0 {
		c.reportAt(path, "set "+owner+"Reserved, or remove the word",
			"Failed to enforce %s Reserved Cgroup "+
				"Limits on %q: "+
				"cgroup is not configured properly (%sReserved is empty)", capitalize(owner), cgroup, owner)
	}
}

func capitalize(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// reservedFields are the fields that reserve resources, with their flags.
var reservedFields = []struct{ name, flag string }{
	{"kubeReserved", "--kube-reserved"},
	{"systemReserved", "--system-reserved"},
}

var reservableResources = []string{"cpu", "memory", "ephemeral-storage", "pid"}

func checkResourceNames(c *checker) {
	for _, field := range reservedFields {
		for _, name := range sortedKeys(c.mapAt(field.name)) {
			if !slices.Contains(reservableResources, name) {
				c.reportMember(field.name, name, suggest(name, reservableResources),
					"%s value failed to parse: cannot reserve %q resource", field.flag, name)
			}
		}
	}
}

func checkReservedAmounts(c *checker) {
	for _, field := range reservedFields {
		amounts := c.mapAt(field.name)
		for _, name := range reservableResources {
			text, ok := amounts[name]
			if !ok {
				continue
			}
			path := []string{field.name, name}
			amount, err := quantity.Parse(text)
			switch {
			case err != nil:
				c.reportAt(path, quantityHint, "%s value failed to parse: "+
					"failed to parse quantity %q for %q resource: %s", field.flag, text, name, err)
			case amount.Sign() < 0:
				c.reportAt(path, "reserve 0 or more", "%s value failed to parse: "+
					"resource quantity for %q cannot be negative: %s", field.flag, name, text)
			}
		}
	}
}

// checkTinyAmounts reports bytes where the unit was probably forgotten.
func checkTinyAmounts(c *checker) {
	for _, field := range reservedFields {
		for _, name := range []string{"ephemeral-storage", "memory"} {
			c.startFinding()
			text, _ := c.memberAt(field.name, name)
			c.checkTinyAmount([]string{field.name, name}, text)
		}
	}
	c.startFinding()
	for _, field := range []string{"evictionHard", "evictionSoft", "evictionMinimumReclaim"} {
		amounts := c.mapAt(field)
		for _, signal := range sortedKeys(amounts) {
			if strings.HasSuffix(signal, ".available") && signal != "pid.available" {
				c.checkTinyAmount([]string{field, signal}, amounts[signal])
			}
		}
	}
	for _, limit := range c.memoryLimits() {
		if limit.kind == "memory" {
			c.checkTinyAmount(limit.path(), limit.text)
		}
	}
}

func (c *checker) checkTinyAmount(path []string, text string) {
	amount, err := quantity.Parse(text)
	if err != nil || amount.Sign() <= 0 || amount.CmpInt64(kubelet.MinAmount) >= 0 {
		return
	}
	hint := "write 16Mi or more, or 0"
	if strings.Trim(text, "0123456789") == "" && len(text) <= 4 {
		hint = "write a unit: " + text + "Gi"
	}
	c.reportAt(path, hint, "%s is only %s bytes", text, amount.AsDec())
}

func checkCPUList(c *checker) {
	list := c.textAt("reservedSystemCPUs")
	if _, err := kubelet.ParseCPUSet(list); err != nil {
		c.reportField("reservedSystemCPUs", "write CPU numbers and ranges, like 0-3,8",
			"invalid configuration: "+
				"unable to parse reservedSystemCPUs (--reserved-cpus) %s, error: %s", list, err)
	}
}

func checkCPUsAndCgroup(c *checker) {
	for _, cgroup := range []string{"systemReservedCgroup", "kubeReservedCgroup"} {
		c.startFinding()
		if c.textAt("reservedSystemCPUs") != "" && c.textAt(cgroup) != "" {
			c.reportField("reservedSystemCPUs", "remove the cgroups, or reserve cpu by quantity",
				"invalid configuration: "+
					"can't use reservedSystemCPUs (--reserved-cpus) with "+
					"systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)")
		}
	}
}

func checkCPUReservedTwice(c *checker) {
	for _, field := range reservedFields {
		c.startFinding()
		_, hasAmount := c.memberAt(field.name, "cpu")
		if hasAmount && c.textAt("reservedSystemCPUs") != "" {
			c.reportMember(field.name, "cpu", "remove cpu, or reservedSystemCPUs",
				"reservedSystemCPUs is set too, so the kubelet silently ignores this amount")
		}
	}
}

func checkStaticCPUs(c *checker) {
	if c.textAt("cpuManagerPolicy") != "static" || c.textAt("reservedSystemCPUs") != "" {
		return
	}
	if cpus := c.sumReserved("cpu"); cpus.IsZero() {
		c.reportField("cpuManagerPolicy",
			"reserve cpu in kubeReserved or systemReserved, or CPUs in reservedSystemCPUs",
			"[cpumanager] unable to determine reserved CPU resources for static policy")
	}
}

func checkQoSReserved(c *checker) {
	const failed = "--qos-reserved value failed to parse: "
	reserved := c.mapAt("qosReserved")
	for _, name := range sortedKeys(reserved) {
		path := []string{"qosReserved", name}
		text, isPercent := strings.CutSuffix(reserved[name], "%")
		n, err := strconv.Atoi(text)
		isValid := isPercent && err == nil && n >= 0 && n <= 100
		switch {
		case name != "memory":
			c.reportAt(path, "remove it: only memory can be reserved", failed+"cannot reserve %q resource",
				name)
		case !isValid:
			c.reportAt(path, "write a number and %, like 50%",
				failed+"failed to parse percentage %q for %q resource", reserved[name], name)
		}
	}
}

// sumReserved returns the sum of kubeReserved and systemReserved of a resource. Malformed amounts count as 0.
func (c *checker) sumReserved(name string) resource.Quantity {
	var sum resource.Quantity
	for _, field := range reservedFields {
		sum.Add(c.reservedAmount(field.name, name))
	}

	return sum
}

func (c *checker) reservedAmount(field, name string) resource.Quantity {
	text, _ := c.memberAt(field, name)
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
	ignores, _ := c.flagValue(kubelet.IgnoreEvictionFlag)
	if isIgnored, err := strconv.ParseBool(ignores); err == nil && isIgnored {
		return amount, true
	}

	c.memberAt("evictionHard", signal) // a part of a configuration may lack it
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

// memoryLimit is one amount of reservedMemory.
type memoryLimit struct {
	index int
	node  string // the NUMA node
	kind  string // memory or hugepages-SIZE
	text  string
}

func (m memoryLimit) path() []string {
	return []string{"reservedMemory", strconv.Itoa(m.index), "limits", m.kind}
}

func (c *checker) memoryLimits() []memoryLimit {
	var limits []memoryLimit
	for i, v := range c.listAt("reservedMemory") {
		entry, _ := v.(map[string]any)
		amounts, _ := entry["limits"].(map[string]any)
		node := "0"
		if entry["numaNode"] != nil {
			node = fmt.Sprint(entry["numaNode"])
		}
		for _, kind := range sortedKeys(amounts) {
			if amounts[kind] == nil {
				continue
			}
			text := strings.TrimSpace(fmt.Sprint(amounts[kind])) // as resource.Quantity.UnmarshalJSON
			limits = append(limits, memoryLimit{i, node, kind, text})
		}
	}

	return limits
}

// checkStaticMemory compares reservedMemory with the sum that the memory manager wants: kubeReserved + systemReserved +
// evictionHard.
func checkStaticMemory(c *checker) {
	if c.textAt("memoryManagerPolicy") != "Static" {
		return
	}
	capacity := int64(0)
	if c.Machine != nil {
		capacity = c.Machine.MemoryBytes
	}
	want := c.sumReserved("memory")
	threshold, isKnown := c.evictionAmount("memory.available", capacity)
	if !isKnown {
		return
	}
	want.Add(threshold)

	var got resource.Quantity
	for _, limit := range c.memoryLimits() {
		amount, err := quantity.Parse(limit.text)
		if err != nil { // config-bad-quantity reports it
			return
		}
		if limit.kind == "memory" {
			got.Add(amount)
		} else if strings.HasPrefix(limit.kind, "hugepages-") && amount.Sign() > 0 { // nothing else reserves huge pages
			c.reportAt(limit.path(), "remove it", unequalMemory, amount.String(), limit.kind, "0")
		}
	}
	if got.Cmp(want) != 0 {
		c.reportField(
			"reservedMemory",
			"change the sum of all NUMA nodes' memory to kubeReserved + systemReserved + evictionHard = "+want.String(),
			unequalMemory,
			got.String(),
			"memory",
			want.String(),
		)
	}
}

// checkSomeMemory reports a static memory manager with nothing to reserve.
func checkSomeMemory(c *checker) {
	if c.textAt("memoryManagerPolicy") != "Static" {
		return
	}

	sum := c.sumReserved("memory")
	if threshold, isKnown := c.evictionAmount("memory.available", 0); !isKnown || !threshold.IsZero() {
		return
	}
	for _, limit := range c.memoryLimits() {
		if limit.kind == "memory" { // config-reserved-memory-sum compares it
			return
		}
	}
	if sum.IsZero() {
		c.reportField("memoryManagerPolicy",
			"reserve memory in kubeReserved or systemReserved, and the same in reservedMemory",
			"[memorymanager] you should specify the system reserved memory")
	}
}

const unequalMemory = "the total amount %q of type %q is not equal to the value %q determined by Node " +
	"Allocatable feature"

func checkReservedMemory(c *checker) {
	type key struct{ node, kind string }
	seen := map[key]bool{}
	for _, limit := range c.memoryLimits() {
		if limit.kind != "memory" && !strings.HasPrefix(limit.kind, "hugepages-") {
			c.reportAt(limit.path(), "reserve memory or hugepages-SIZE", "invalid configuration: "+
				"the limit type %q for NUMA node %s is not supported", limit.kind, limit.node)
		}
		if amount, err := quantity.Parse(limit.text); err == nil && amount.IsZero() {
			c.reportAt(limit.path(), "remove it", "invalid configuration: "+
				"reserved memory may not be zero for NUMA node %s and resource %q", limit.node, limit.kind)
		}
		k := key{limit.node, limit.kind}
		if seen[k] {
			c.reportAt(limit.path(), "remove the duplicate",
				"invalid configuration: the reserved memory has "+
					"a duplicate value "+
					"for NUMA node %s and resource %q", limit.node, limit.kind)
		}
		seen[k] = true
	}
}

func checkUnusedMemory(c *checker) {
	policy := c.textAt("memoryManagerPolicy")
	isStatic := policy != "" && policy != "None"
	if !isStatic && len(c.listAt("reservedMemory")) > 0 {
		c.reportField("reservedMemory", "set memoryManagerPolicy: Static, or remove it",
			"without memoryManagerPolicy: Static this has no effect")
	}
}
