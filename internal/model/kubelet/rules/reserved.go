package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/kubelet"
)

const (
	enforcementField = "enforceNodeAllocatable"
	memoryLimits     = "reservedMemory.*.limits.*"
)

// reserves reports whether kubeReserved or systemReserved has some of a resource.
func (v value) reserves(resource string) bool { return !v.sumReserved(resource).IsZero() }

// isEnforced reports whether the kubelet accepts a word that needs QoS cgroups.
func isEnforced(v value) bool { return v.text() != "none" && !isBadEnforcement(v) }

// isBadEnforcement reports a word that is unknown, repeated, or not alone.
func isBadEnforcement(v value) bool {
	word := v.text()
	valid := []string{"pods", "system-reserved", "kube-reserved", "none"}
	if v.minor >= 32 {
		valid = append(valid, "system-reserved-compressible", "kube-reserved-compressible")
	}
	switch {
	case !slices.Contains(valid, word):
		return v.isOther(word, valid)
	case word == "none":
		return len(v.listOf(enforcementField)) > 1 && v.because("keep none alone, or remove it",
			"none may not be with other words")
	}

	return v.isBefore(word) && v.minor >= 31 && v.because("remove the duplicate", "{value} is in the list twice")
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

// lacksCgroup reports a word without the cgroup that it enforces, or with its other form.
func lacksCgroup(v value) bool {
	owner := findOwner(v.text())
	switch {
	case owner == "" || isBadEnforcement(v):
	case v.isBefore(owner+"-reserved") || v.isBefore(owner+"-reserved-compressible"):
		return v.because("keep one of the two",
			`"%s-reserved" and "%[1]s-reserved-compressible" exclude each other`, owner)
	case !v.has(owner + "ReservedCgroup"):
		return v.because(
			"set "+owner+"ReservedCgroup to a cgroup that exists when the kubelet starts; or remove the word",
			"{value} needs %sReservedCgroup", owner)
	}

	return false
}

// lacksReservation reports a word without the amounts that it enforces.
func lacksReservation(v value) bool {
	owner := findOwner(v.text())
	cgroup := v.textOf(owner + "ReservedCgroup")

	return owner != "" && cgroup != "" && len(namesIn(v.valueAt(owner+"Reserved"))) == 0 &&
		v.because("set "+owner+"Reserved, or remove the word", "Failed to enforce %s Reserved Cgroup Limits on %q: "+
			"cgroup is not configured properly (%sReserved is empty)", capitalize(owner), cgroup, owner)
}

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
		hint = "write a unit: " + text + "Mi"
	}

	return v.because(hint, "%s", amount.AsDec())
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
	amount, err := kubelet.ParseQuantity(text)
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
		amount, err = kubelet.ParseQuantity(threshold)

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
		case amount.Sign() > 0: // nothing else reserves huge pages
			c.reportAt(path, "remove it", unequal, amount.String(), v.key(), "0")
		}
	}
	if got.Cmp(*want) != 0 {
		c.report("reservedMemory", "change the sum of all NUMA nodes' memory to kubeReserved + systemReserved + "+
			"evictionHard = "+want.String(), unequal, got.String(), "memory", want.String())
	}
}

// lacksReservedMemory reports that neither evictionHard nor reservedMemory has memory. config-reserved-memory-sum
// compares reservedMemory.
func lacksReservedMemory(v value) bool {
	threshold, isKnown := v.evictionAmount("memory.available", 0)
	isReserved := func(path []string) bool { return path[3] == "memory" }

	return isKnown && threshold.IsZero() && !slices.ContainsFunc(v.places(memoryLimits), isReserved)
}
