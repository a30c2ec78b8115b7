package reserve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/stages"
)

const signalMemory = "memory.available"

// reservation is the kubelet's effective reservation, from any source: the policy, the base, patch, a drop-in, or a
// flag.
type reservation struct {
	*decision
	origin.Collector

	from       map[string][]origin.Origin // of the fields of the configuration, by pointer
	out        *desired.Reserved
	amounts    map[string]amounts // by resource
	cpus       cpuset.CPUSet      // whole ones, whose amount is that of cpu
	hardMemory int64              // the threshold of memory.available in bytes, if it is kept from pods
}

// reserve computes the reservation of a node from its kubelet's effective configuration, flags included, in the same
// way as the kubelet: for the outputs that of the base and this stage, whose readers may change the node, and in finish
// that of the finished node.
func (d *decision) reserve(n desired.Node) (f *reservation, err error) {
	out := stages.ReadReserved(n.Effective, n.Flags, d.m.cpus)
	f = &reservation{decision: d, from: n.ConfigOrigins, out: out, amounts: map[string]amounts{}}

	if f.cpus, err = kubelet.ParseCPUSet(out.CPUs); err != nil {
		return nil, err
	}
	for _, name := range resources() {
		if f.amounts[name], err = parseAmounts(out.Kube, out.System, name); err != nil {
			return nil, err
		}
	}
	if !f.cpus.IsEmpty() {
		f.amounts[cpu] = amounts{kube: int64(f.cpus.Size()) * 1000}
	}

	if !ignoresEviction(n.Flags) {
		if f.hardMemory, err = thresholdBytes(out.EvictionHard[signalMemory], d.capacity); err != nil {
			return nil, fmt.Errorf("evictionHard: %s: %w", signalMemory, err)
		}
	}
	f.complete()

	return f, nil
}

// finish is desired.Reserved.Finish. It refuses a reservation that leaves next to nothing to pods or violates the
// site's bounds.
func (d *decision) finish(n desired.Node) (*desired.Reserved, hcl.Diagnostics) {
	f, err := d.reserve(n)
	if err != nil {
		return nil, d.configError(err)
	}

	f.checkRest(f.cpuSum())
	f.checkRest(f.memorySum())
	if !f.Diags.HasErrors() {
		f.checkBounds()
	}
	f.checkPods()
	f.checkMemoryManager()
	f.warnOfFlags(n.Flags)

	return f.out, f.Diags
}

// parseAmounts parses the amounts of one resource; 0 if it is not set.
func parseAmounts(kube, system map[string]string, name string) (out amounts, err error) {
	for _, half := range []struct {
		field string
		texts map[string]string
		n     *int64
	}{
		{fieldKube, kube, &out.kube},
		{fieldSystem, system, &out.system},
	} {
		text, ok := half.texts[name]
		if !ok {
			continue
		}
		if *half.n, err = parseQuantity(name, text); err != nil {
			return out, fmt.Errorf("%s.%s: %w", half.field, name, err)
		}
	}

	return out, nil
}

// ignoresEviction reports whether a flag makes the kubelet leave evictionHard out of the reservation.
func ignoresEviction(flags []desired.Flag) bool {
	return slices.ContainsFunc(flags, func(f desired.Flag) bool {
		ignores, err := strconv.ParseBool(f.Value)
		return f.Name == kubelet.IgnoreEvictionFlag && err == nil && ignores
	})
}

// checkBounds refuses amounts from other sources that violate the bounds of the site.
func (f *reservation) checkBounds() {
	for _, name := range resources() {
		sum := f.amounts[name].sum()
		if boundName, b, ok := f.req.findViolated(name, sum); ok {
			advice := map[string]string{
				"floor": "Raise that, or lower the floor.",
				"cap":   "Lower that, or raise the cap.",
			}
			f.Error(fault.ReserveRefused, b.at, boundName+"."+name+" is not kept",
				"%s reserved in all, and the %s is %s: patch, a drop-in or a flag overrides policy %s. %s",
				formatQuantity(name, sum), boundName, formatQuantity(name, b.amount), f.req.policy, advice[boundName])
		}
	}
}

// checkPods warns of a formula that counts another number of pods than the kubelet takes.
func (f *reservation) checkPods() {
	countsPods := f.req.policy == eks && f.req.eniPods == 0 || f.req.policy == aks
	if !countsPods || f.out.MaxPods == int(f.maxPods) {
		return
	}

	advice := fmt.Sprintf("Write max_pods = %d in this stage instead.", f.out.MaxPods)
	if f.out.MaxPods == 0 {
		advice = "Remove the flag --max-pods: a kubelet with 0 takes no pod."
	}

	f.Warn(
		fault.Conflict,
		f.req.at,
		"The formula counts other pods than the kubelet",
		"Policy %s reserves memory for %d pods, and the kubelet takes %d: "+
			"the cause is maxPods or podsPerCore of the base, patch, a drop-in or a flag. %s",
		f.req.policy,
		f.maxPods,
		f.out.MaxPods,
		advice,
	)
}

// warnOfFlags warns of flags that the kubelet silently prefers to the fields that this stage sets.
func (f *reservation) warnOfFlags(flags []desired.Flag) {
	isSet := map[string]bool{fieldHard: len(f.thresholds) > 0}
	for _, s := range f.contribution().Settings {
		isSet[s.Path[0]] = true
	}

	fields := map[string]string{
		"kube-reserved":   fieldKube,
		"system-reserved": fieldSystem,
		"eviction-hard":   fieldHard,
		"reserved-cpus":   fieldCPUs,
		"max-pods":        "maxPods",
	}
	for _, flag := range flags {
		field := fields[flag.Name]
		if !isSet[field] {
			continue
		}

		owner, advice := flagOwner(flag)
		f.Warn(
			fault.Conflict,
			f.req.at,
			"A flag wins over what is reserved here",
			"%s has --%s=%s, and the kubelet silently prefers a flag to its configuration's %s. %s",
			owner,
			flag.Name,
			strings.TrimSpace(flag.Value),
			field,
			advice,
		)
	}
}

// flagOwner returns the stage or file that sets a flag, and where to remove it.
func flagOwner(f desired.Flag) (owner, advice string) {
	switch {
	case f.Inherited:
		return strings.Replace(f.Origins[0].Ref, "the ", "The ", 1), "Remove the flag there."
	case len(f.Origins) == 0 || f.Origins[0].Kind == origin.Base:
		return "The base", "Remove the flag from the base."
	}

	return "The site", "Remove the flag, or set the field in this stage."
}

// complete adds the fields that are computed from the amounts to the reservation.
func (f *reservation) complete() {
	r := f.out
	r.Policy = f.req.policy
	r.CPUs = f.cpus.String()
	r.Allocatable = map[string]string{}
	r.Origins = slices.Clone(f.req.site)

	for _, s := range []sum{f.cpuSum(), f.memorySum()} {
		r.Allocatable[s.resource] = formatQuantity(s.resource, s.rest())
	}
	for size, bytes := range f.hugePages() {
		r.Allocatable[hugePagesPrefix+size] = formatQuantity(memory, bytes)
	}
	for _, of := range []string{cpu, memory, storage, stepsEviction, stepsTopology} {
		r.Origins = append(r.Origins, f.steps[of]...)
	}
	var parts []string // of the memory, for people
	for _, m := range f.reservedMemory() {
		text := formatQuantity(memory, m.bytes)
		parts = append(parts, fmt.Sprintf("%s on NUMA node %d", text, m.node))
		r.Memory = append(r.Memory, map[string]any{
			"numaNode": int64(m.node),
			"limits":   map[string]any{memory: text},
		})
	}
	if f.req.memoryManager != nil && len(parts) > 0 {
		r.Settings = []desired.Setting{f.memorySetting(r.Memory, strings.Join(parts, ", "))}
	}
}

const hugePagesPrefix = "hugepages-"

// hugePages returns the bytes of each size of huge pages that the machine has. collectMachine has checked them.
func (d *decision) hugePages() map[string]int64 {
	out := map[string]int64{}
	for size, n := range d.in.Facts.Memory.HugePages {
		if one, err := parseQuantity(memory, size); err == nil && n > 0 {
			out[size] = one * int64(n)
		}
	}

	return out
}
