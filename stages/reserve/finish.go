package reserve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/stages"
)

const signalMemory = "memory.available"

// finished is the kubelet's effective reservation, from any source: the policy, the base, patch, a drop-in, or a flag.
type finished struct {
	*decision
	origin.Collector

	kube, system map[string]string // as text
	amounts      map[string]both   // by resource
	cpus         cpuset.CPUSet
	eviction     map[string]string
	hardMemory   int64 // the threshold of memory.available in bytes, if it is kept from pods
	maxPods      int64
}

// both are the amounts of kubeReserved and systemReserved of one resource.
type both struct{ kube, system int64 }

// finishOwn computes the reservation from the base and the contribution of this stage: additions of other stages are
// not known yet.
func (d *decision) finishOwn(c node.Contribution) (*finished, error) {
	own, _ := node.Merge(d.in.Base, []node.Contribution{c})
	config, err := stages.EffectiveConfig(own, d.in.Kubelet.KnownVersion())
	if err != nil {
		return nil, err
	}

	return d.compute(config, own.Flags)
}

// compute reads the kubelet's effective configuration in the same way as the kubelet.
func (d *decision) compute(config map[string]any, flags []node.Flag) (f *finished, err error) {
	f = &finished{
		decision: d,
		kube:     stages.Amounts(config, fieldKube),
		system:   stages.Amounts(config, fieldSystem),
		amounts:  map[string]both{},
		eviction: kubelet.EvictionHardOf(config),
		maxPods:  stages.CountPods(config, flags, d.m.cpus),
	}

	list, _ := config[fieldCPUs].(string)
	if f.cpus, err = kubelet.ParseCPUSet(list); err != nil {
		return f, err
	}
	if !f.cpus.IsEmpty() { // the kubelet ignores the amounts: cmd/kubelet/app/server.go, run
		delete(f.kube, cpu)
		delete(f.system, cpu)
	}

	for _, name := range resources() {
		kube, err := parseAmount(fieldKube, f.kube, name)
		if err != nil {
			return f, err
		}
		system, err := parseAmount(fieldSystem, f.system, name)
		if err != nil {
			return f, err
		}
		f.amounts[name] = both{kube, system}
	}

	if !ignoresEviction(flags) {
		if f.hardMemory, err = thresholdBytes(f.eviction[signalMemory], d.capacity); err != nil {
			return f, fmt.Errorf("evictionHard: %s: %w", signalMemory, err)
		}
	}

	return f, nil
}

// parseAmount parses an amount of a field; 0 if it is not set.
func parseAmount(field string, amounts map[string]string, name string) (int64, error) {
	text, ok := amounts[name]
	if !ok {
		return 0, nil
	}

	n, err := parseQuantity(name, text)
	if err != nil {
		return 0, fmt.Errorf("%s.%s: %w", field, name, err)
	}

	return n, nil
}

// ignoresEviction reports whether a flag makes the kubelet leave evictionHard out of the reservation.
func ignoresEviction(flags []node.Flag) bool {
	return slices.ContainsFunc(flags, func(f node.Flag) bool {
		ignores, err := strconv.ParseBool(f.Value)
		return f.Name == kubelet.IgnoreEvictionFlag && err == nil && ignores
	})
}

// finish computes the reservation of the finished node, and refuses a reservation that leaves next to nothing to
// pods or violates the site's bounds. config is the kubelet's effective configuration, flags included. It returns nil
// for an invalid reservation.
func (d *decision) finish(
	config map[string]any, flags []node.Flag,
) (*node.Reserved, hcl.Diagnostics) {
	f, err := d.compute(config, flags)
	if err != nil {
		return nil, d.configError(err.Error())
	}

	f.checkRest(f.cpuSum())
	f.checkRest(f.memorySum())
	if !f.Diags.HasErrors() {
		f.checkBounds()
	}
	f.checkPods()
	f.checkMemoryManager()
	f.warnOfFlags(flags)

	return f.reserved(), f.Diags
}

// checkBounds refuses amounts from other sources that violate the bounds of the site.
func (f *finished) checkBounds() {
	for _, name := range resources() {
		sum := f.amounts[name].kube + f.amounts[name].system
		if name == cpu && !f.cpus.IsEmpty() {
			sum = int64(f.cpus.Size()) * 1000
		}

		if b, ok := f.req.floor[name]; ok && sum < b.amount {
			f.violation("floor", name, sum, b, "Raise that, or lower the floor.")
		}
		if b, ok := f.req.cap[name]; ok && sum > b.amount {
			f.violation("cap", name, sum, b, "Lower that, or raise the cap.")
		}
	}
}

func (f *finished) violation(
	boundName, resource string,
	sum int64,
	b bound,
	advice string,
) {
	f.Error(fault.ReserveRefused, b.at, boundName+"."+resource+" is not kept",
		"%s reserved in all, and the %s is %s: patch, a drop-in or a flag overrides policy %s. %s",
		formatQuantity(resource, sum), boundName, formatQuantity(resource, b.amount), f.req.policy, advice)
}

// checkPods warns of a formula that counts another number of pods than the kubelet takes.
func (f *finished) checkPods() {
	countsPods := f.req.policy == eks && f.req.eniPods == 0 || f.req.policy == aks
	if !countsPods || f.maxPods == f.decision.maxPods {
		return
	}

	advice := fmt.Sprintf("Write max_pods = %d in this stage instead.", f.maxPods)
	if f.maxPods == 0 {
		advice = "Remove the flag --max-pods: a kubelet with 0 takes no pod."
	}

	f.Warn(
		fault.Conflict,
		f.req.at,
		"The formula counts other pods than the kubelet",
		"Policy %s reserves memory for %d pods, and the kubelet takes %d: "+
			"the cause is maxPods or podsPerCore of the base, patch, a drop-in or a flag. %s",
		f.req.policy,
		f.decision.maxPods,
		f.maxPods,
		advice,
	)
}

// warnOfFlags warns of flags that the kubelet silently prefers to the fields that this stage sets.
func (f *finished) warnOfFlags(flags []node.Flag) {
	isSet := map[string]bool{"evictionHard": len(f.thresholds) > 0}
	for _, s := range f.contribution().Settings {
		isSet[s.Path[0]] = true
	}

	fields := map[string]string{
		"kube-reserved":   fieldKube,
		"system-reserved": fieldSystem,
		"eviction-hard":   "evictionHard",
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
func flagOwner(f node.Flag) (owner, advice string) {
	switch {
	case f.Inherited:
		return strings.Replace(f.Origins[0].Ref, "the ", "The ", 1), "Remove the flag there."
	case len(f.Origins) == 0 || f.Origins[0].Kind == origin.Base:
		return "The base", "Remove the flag from the base."
	}

	return "The site", "Remove the flag, or set the field in this stage."
}

// reserved returns the whole reservation for the plan.
func (f *finished) reserved() *node.Reserved {
	r := &node.Reserved{
		Policy:       f.req.policy,
		Kube:         f.kube,
		System:       f.system,
		CPUs:         f.cpus.String(),
		EvictionHard: f.eviction,
		MaxPods:      int(f.maxPods),
		Allocatable:  map[string]string{},
		Origins:      slices.Clone(f.req.site),
		Finish:       f.finish,
	}

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
		r.Settings = []node.Setting{f.memorySetting(r.Memory, strings.Join(parts, ", "))}
	}

	return r
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
