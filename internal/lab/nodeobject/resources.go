package nodeobject

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// The resources of which the kubelet reserves a part.
const (
	cpu     = "cpu"
	memory  = "memory"
	storage = "ephemeral-storage"
)

// resources returns the node's capacity, and its allocatable resources: by the stage reserve, otherwise as the kubelet
// computes them (pkg/kubelet/cm/node_container_manager_linux.go, getNodeAllocatableAbsolute).
func (m *maker) resources() (capacity, allocatable map[string]string) {
	facts, n := m.plan.Facts, m.plan.Node
	has := map[string]resource.Quantity{
		cpu:    *resource.NewQuantity(int64(*facts.CPU.Logical), resource.DecimalSI),
		memory: *resource.NewQuantity(*facts.Memory.TotalBytes, resource.BinarySI),
	}
	if disk := m.plan.Kubelet.Disk; disk > 0 {
		has[storage] = *resource.NewQuantity(disk, resource.BinarySI)
	} else {
		m.assume("no %s, as the recording does not have its size", storage)
	}
	left := map[string]resource.Quantity{}
	for name, q := range has {
		r := findReserved(n, name, q)
		q.Sub(r.kube)
		q.Sub(r.system)
		q.Sub(r.eviction)
		left[name] = q
	}

	pods := stages.CountPods(n.Effective, n.Flags, int64(*facts.CPU.Logical))
	has["pods"] = *resource.NewQuantity(pods, resource.DecimalSI)
	memoryLeft := left[memory]
	for size, count := range facts.Memory.HugePages {
		if page, err := kubelet.ParseQuantity(size); err == nil && count > 0 {
			pages := resource.NewQuantity(page.Value()*int64(count), resource.BinarySI)
			has["hugepages-"+size] = *pages
			memoryLeft.Sub(*pages)
		}
	}
	left[memory] = memoryLeft
	for name, count := range m.countDevices() {
		has[name] = *resource.NewQuantity(count, resource.DecimalSI)
	}

	capacity = formatAll(has)
	allocatable = maps.Clone(capacity)
	maps.Copy(allocatable, formatAll(left))
	if n.Reserved != nil {
		maps.Copy(allocatable, n.Reserved.Allocatable)
	}

	return capacity, allocatable
}

func formatAll(amounts map[string]resource.Quantity) map[string]string {
	out := map[string]string{}
	for name, q := range amounts {
		out[name] = q.String()
	}

	return out
}

// reserved has the amounts of a resource that a kubelet keeps from pods.
type reserved struct{ kube, system, eviction resource.Quantity }

// findReserved returns kubeReserved, systemReserved and the threshold of hard eviction of the kubelet's configuration.
func findReserved(n desired.Node, name string, capacity resource.Quantity) (r reserved) {
	list, _ := n.Effective["reservedSystemCPUs"].(string)
	if cpus, err := kubelet.ParseCPUSet(list); name == cpu && err == nil && !cpus.IsEmpty() {
		r.system = *resource.NewQuantity(int64(cpus.Size()), resource.DecimalSI) // the amounts are ignored
		return r
	}

	r.kube, _ = kubelet.ParseQuantity(stages.Amounts(n.Effective, "kubeReserved")[name]) // else 0
	r.system, _ = kubelet.ParseQuantity(stages.Amounts(n.Effective, "systemReserved")[name])
	r.eviction = findThreshold(n, name, capacity.Value())

	return r
}

// findThreshold returns the threshold of hard eviction of a resource.
func findThreshold(n desired.Node, name string, capacity int64) (q resource.Quantity) {
	signal := map[string]string{memory: "memory.available", storage: "nodefs.available"}[name]
	text := kubelet.EvictionHardOf(n.Effective)[signal]
	ignores, _ := desired.FindFlag(n.Flags, kubelet.IgnoreEvictionFlag)
	if isIgnored, _ := strconv.ParseBool(ignores.Value); isIgnored || kubelet.IsThresholdOff(text) {
		return q
	}

	part, isPercent, err := kubelet.ParsePercentage(text)
	switch {
	case isPercent && err == nil && part >= 0 && part <= 1: // not NaN
		return *resource.NewQuantity(int64(float64(capacity)*float64(part)), resource.BinarySI)
	case !isPercent:
		q, _ = kubelet.ParseQuantity(text) // rules has refused an invalid one
	}

	return q
}

// countDevices returns the extended resources that the vendor's device plugin would add: one for each accelerator.
func (m *maker) countDevices() map[string]int64 {
	counts := map[string]int64{}
	for _, a := range m.plan.Facts.Accelerators {
		counts[nameResource(a)]++
	}

	if unknown := counts[""]; unknown > 0 {
		m.assume("no resource for %d accelerators without a known device plugin", unknown)
	}
	delete(counts, "")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		m.assume("%s: %d, by a device plugin, one for each device", name, counts[name])
	}

	return counts
}

// nameResource returns the resource of the vendor's device plugin; "" if it is not known.
func nameResource(a tape.Accelerator) string {
	vendor := orEmpty(a.Vendor)
	names := map[string]string{
		"gpu/nvidia": "nvidia.com/gpu",
		"gpu/amd":    "amd.com/gpu",
		"gpu/intel":  "gpu.intel.com/" + orEmpty(a.Driver), // i915 or xe
		"npu/habana": "habana.ai/gaudi",
		"npu/amazon": "aws.amazon.com/neuron",
	}

	return names[a.Kind+"/"+vendor]
}
