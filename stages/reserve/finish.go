package reserve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/stages"
)

// finished is what a kubelet keeps from pods, whoever has set it: the policy, the base, patch, a drop-in, or a flag.
type finished struct {
	*decision
	kube, system map[string]string // as text
	amounts      map[string]both   // by resource
	cpus         cpuset.CPUSet
	eviction     map[string]string
	hardMemory   int64 // memory.available in bytes, as far as it is kept from pods
	maxPods      int64
}

// both is what kubeReserved and systemReserved keep of one resource.
type both struct{ kube, system int64 }

// reckon reads the configuration that the kubelet works with, as the kubelet does.
func (d *decision) reckon(config map[string]any, flags []node.Flag) (f finished, err error) {
	f = finished{
		decision: d, kube: stages.Amounts(config, "kubeReserved"), system: stages.Amounts(config, "systemReserved"),
		amounts: map[string]both{}, eviction: kubelet.EvictionHardOf(config), maxPods: d.countPods(config, flags),
	}

	list, _ := config["reservedSystemCPUs"].(string)
	if f.cpus, err = kubelet.ParseCPUSet(list); err != nil {
		return f, err
	}
	if !f.cpus.IsEmpty() { // the kubelet drops it: cmd/kubelet/app/server.go, run
		delete(f.kube, cpu)
		delete(f.system, cpu)
	}
	for _, name := range resources() {
		var b both
		for field, half := range map[string]struct {
			all map[string]string
			n   *int64
		}{"kubeReserved": {f.kube, &b.kube}, "systemReserved": {f.system, &b.system}} {
			text, ok := half.all[name]
			if !ok {
				continue
			}
			if *half.n, err = parseQuantity(name, text); err != nil {
				return f, fmt.Errorf("%s.%s: %w", field, name, err)
			}
		}
		f.amounts[name] = b
	}

	if f.hardMemory, err = thresholdBytes(f.eviction["memory.available"], d.capacity); err != nil {
		return f, fmt.Errorf("evictionHard: memory.available: %w", err)
	}
	for _, flag := range flags {
		ignores, err := strconv.ParseBool(flag.Value)
		if flag.Name == kubelet.IgnoreEvictionFlag && err == nil && ignores {
			f.hardMemory = 0
		}
	}

	return f, nil
}

// countPods returns how many pods a kubelet with a configuration, flags included, takes. podsPerCore lowers maxPods, and
// a maxPods of 0 stands for the default unless a flag sets it.
//
// Source: pkg/kubelet/nodestatus/setters.go, MachineInfo; pkg/kubelet/apis/config/v1beta1/defaults.go.
func (d *decision) countPods(config map[string]any, flags []node.Flag) int64 {
	number := func(field string) (int64, bool) {
		n, ok := config[field].(json.Number)
		i, err := n.Int64()

		return i, ok && err == nil && i >= 0
	}

	pods, ok := number("maxPods")
	isFlag := slices.ContainsFunc(flags, func(f node.Flag) bool { return f.Name == "max-pods" })
	if !ok || pods == 0 && !isFlag {
		pods = kubelet.DefaultMaxPods
	}
	if perCore, _ := number("podsPerCore"); perCore > 0 && perCore < pods { // the product of larger ones may be too large
		pods = min(pods, perCore*d.m.cpus)
	}

	return pods
}

// finish reckons what the kubelet of the finished node keeps from pods, and refuses what leaves next to nothing to them or
// breaks the site's bounds. config is the configuration that the kubelet works with, flags included. It returns nil for
// one that cannot be reckoned with.
func (d *decision) finish(config map[string]any, flags []node.Flag) (*node.Reserved, hcl.Diagnostics) {
	f, err := d.reckon(config, flags)
	if err != nil {
		return nil, d.baseFault(err.Error())
	}

	diags := f.checkRest(f.cpuSum())
	diags = append(diags, f.checkRest(f.memorySum())...)
	if !diags.HasErrors() {
		diags = append(diags, f.checkBounds()...)
	}
	diags = append(diags, f.checkPods()...)

	return f.reserved(), append(diags, d.flagsWin(flags)...)
}

// checkBounds refuses amounts that others have set out of the bounds of the site.
func (f finished) checkBounds() (diags hcl.Diagnostics) {
	for _, name := range resources() {
		sum := f.amounts[name].kube + f.amounts[name].system
		if name == cpu && !f.cpus.IsEmpty() {
			sum = int64(f.cpus.Size()) * 1000
		}
		if b, ok := f.req.floor[name]; ok && sum < b.amount {
			diags = append(diags, refuse(b.at, "floor."+name+" is not kept",
				"%s reserved in all, and the floor is %s: patch, a drop-in or a flag reserves other than policy %s. Raise that, or lower the floor.",
				quantity(name, sum), quantity(name, b.amount), f.req.policy)...)
		}
		if b, ok := f.req.cap[name]; ok && sum > b.amount {
			diags = append(diags, refuse(b.at, "cap."+name+" is not kept",
				"%s reserved in all, and the cap is %s: patch, a drop-in or a flag reserves other than policy %s. Lower that, or raise the cap.",
				quantity(name, sum), quantity(name, b.amount), f.req.policy)...)
		}
	}

	return diags
}

// checkPods warns of a formula that has counted another number of pods than the kubelet will take.
func (f finished) checkPods() hcl.Diagnostics {
	counts := f.req.policy == eks && f.req.eniPods == 0 || f.req.policy == aks
	if !counts || f.maxPods == f.decision.maxPods {
		return nil
	}

	way := fmt.Sprintf("Write max_pods = %d in this stage instead.", f.maxPods)
	if f.maxPods == 0 {
		way = "Take the flag --max-pods out: a kubelet with 0 takes no pod."
	}

	return hcl.Diagnostics{origin.Warning(fault.Conflict, f.req.at, "The formula counts other pods than the kubelet",
		"Policy %s reserves memory for %d pods, and the kubelet takes %d: maxPods or podsPerCore of the base, patch, a drop-in or a flag say so. %s",
		f.req.policy, f.decision.maxPods, f.maxPods, way)}
}

// flagsWin warns of flags that the kubelet silently prefers to the fields decided here.
func (d *decision) flagsWin(flags []node.Flag) (diags hcl.Diagnostics) {
	fields := map[string]bool{"evictionHard": len(d.thresholds) > 0}
	for _, s := range d.contribution().Settings {
		fields[s.Path[0]] = true
	}
	field := map[string]string{"kube-reserved": "kubeReserved", "system-reserved": "systemReserved", "eviction-hard": "evictionHard",
		"reserved-cpus": "reservedSystemCPUs", "max-pods": "maxPods"}
	for _, f := range flags {
		name := field[f.Name]
		if name == "" || !fields[name] {
			continue
		}
		who, way := "The site", "Take the flag out, or say it in this stage."
		if len(f.Origins) == 0 || f.Origins[0].Kind == origin.Base {
			who, way = "The base", "Take the flag out of the base."
		}
		if f.Inherited {
			who, way = strings.Replace(f.Origins[0].Ref, "the ", "The ", 1), "Take the flag out there."
		}
		diags = append(diags, origin.Warning(fault.Conflict, d.req.at, "A flag wins over what is reserved here",
			"%s has --%s=%s, and the kubelet prefers a flag to its configuration's %s without a word. %s",
			who, f.Name, strings.TrimSpace(f.Value), name, way))
	}

	return diags
}

// reserved is the node's reservation as a whole.
func (f finished) reserved() *node.Reserved {
	r := &node.Reserved{
		Policy: f.req.policy, Kube: f.kube, System: f.system, CPUs: f.cpus.String(), EvictionHard: f.eviction,
		MaxPods: int(f.maxPods), Allocatable: map[string]string{}, Origins: slices.Clone(f.req.site), Finish: f.finish,
	}
	for _, s := range []sum{f.cpuSum(), f.memorySum()} {
		r.Allocatable[s.resource] = quantity(s.resource, s.rest())
	}
	sizes, bytes := f.hugePages()
	for _, size := range sizes {
		r.Allocatable["hugepages-"+size] = quantity(memory, bytes[size])
	}
	for _, of := range []string{cpu, memory, storage, "eviction", "topology"} {
		r.Origins = append(r.Origins, f.stepOrigins(of)...)
	}
	for _, m := range f.reservedMemory() {
		r.Memory = append(r.Memory, map[string]any{"numaNode": m.node, "limits": map[string]any{memory: quantity(memory, m.bytes)}})
	}

	return r
}
