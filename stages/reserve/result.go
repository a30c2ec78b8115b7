package reserve

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
)

// origins are the site's words for the policy, and the arithmetic of one thing.
func (d *decision) origins(of string) []origin.Origin {
	return append(slices.Clone(d.req.site), d.stepOrigins(of)...)
}

func (d *decision) stepOrigins(of string) (out []origin.Origin) {
	for _, s := range d.steps[of] {
		out = append(out, s.site...)
		out = append(out, origin.Origin{Kind: origin.Policy, Role: origin.Value, Ref: "policy " + d.req.policy, Text: s.text})
	}
	return out
}

// contribution is what the node gets. Only leaves are set: other keys of the base stay.
func (d *decision) contribution() node.Contribution {
	var c node.Contribution
	set := func(from []origin.Origin, v any, path ...string) {
		c.Settings = append(c.Settings, node.Setting{Path: path, Value: v, Delete: v == nil, Origins: from})
	}
	for _, h := range []half{d.kube, d.system} {
		for _, name := range resources() {
			n, have := h.amounts[name]
			_, inBase := h.base[name]
			switch {
			case name == cpu && d.req.topology:
				if inBase {
					set(d.origins("topology"), nil, h.field, name)
				}
			case !d.decided[name]:
			case have:
				set(d.origins(name), quantity(name, n), h.field, name)
			case inBase:
				set(d.origins(name), nil, h.field, name)
			}
		}
	}
	for _, signal := range d.evictionSet {
		set(d.origins("eviction"), d.eviction[signal], "evictionHard", signal)
	}
	if d.req.topology {
		set(d.origins("topology"), d.cpus.String(), "reservedSystemCPUs")
	}
	if d.dropCPUs {
		set(d.origins(cpu), nil, "reservedSystemCPUs")
	}
	if d.req.maxPods.amount > 0 {
		set(d.req.maxPods.origins, d.maxPods, "maxPods")
	}
	c.Reserved = d.reserved()
	return c
}

// reserved is the node's reservation as a whole: what is decided here, and what the base keeps.
func (d *decision) reserved() *node.Reserved {
	r := &node.Reserved{Policy: d.req.policy, Kube: d.whole(d.kube), System: d.whole(d.system), CPUs: d.cpus.String(),
		EvictionHard: d.eviction, MaxPods: int(d.maxPods), Allocatable: map[string]string{}, Origins: slices.Clone(d.req.site)}
	for name, n := range d.alloc {
		r.Allocatable[name] = quantity(name, n)
	}
	sizes, bytes := d.hugePages()
	for _, size := range sizes {
		r.Allocatable["hugepages-"+size] = quantity(memory, bytes[size])
	}
	for _, of := range []string{cpu, memory, storage, "eviction", "topology"} {
		r.Origins = append(r.Origins, d.stepOrigins(of)...)
	}
	for _, m := range d.reservedMemory() {
		r.Memory = append(r.Memory, map[string]any{"numaNode": m.node, "limits": map[string]any{memory: quantity(memory, m.bytes)}})
	}
	return r
}

// whole is a half as text. Keys that are none of ours, pid for one, stay as the base has them.
func (d *decision) whole(h half) map[string]string {
	out := maps.Clone(h.base)
	for _, name := range resources() {
		n, have := h.amounts[name]
		switch {
		case name == cpu && !d.cpus.IsEmpty(): // the kubelet drops it
			delete(out, name)
		case !d.decided[name]:
		case have:
			out[name] = quantity(name, n)
		default:
			delete(out, name)
		}
	}
	return out
}

// onNode is reserved memory of one NUMA node.
type onNode struct {
	node  int
	bytes int64
}

// reservedMemory divides kubeReserved + systemReserved + evictionHard evenly over the NUMA nodes that have CPUs and
// memory, in whole MiB, the rest on the first. The memory manager's static policy wants exactly this sum (kubelet
// v1.36.3: "the total amount … of type "memory" is not equal to the value … determined by Node Allocatable feature").
func (d *decision) reservedMemory() (out []onNode) {
	total := d.kube.amounts[memory] + d.system.amounts[memory] + d.evictionMemory
	var nodes []int
	for _, n := range d.in.Facts.NUMA {
		if len(n.CPUs) > 0 && (n.MemoryBytes == nil || *n.MemoryBytes > 0) {
			nodes = append(nodes, n.ID)
		}
	}
	slices.Sort(nodes)
	if len(nodes) == 0 {
		nodes = []int{0}
	}
	each := wholeMiB(total / int64(len(nodes)))
	for i, n := range nodes {
		b := each
		if i == 0 {
			b = total - each*int64(len(nodes)-1)
		}
		if b > 0 {
			out = append(out, onNode{n, b})
		}
	}
	return out
}

// output is the stage's outputs, of the type that Outputs declares.
func (d *decision) output() cty.Value {
	r := d.reserved()
	mem := value.Absent(cty.List(reservedMemoryType()))
	var list []cty.Value
	for _, m := range d.reservedMemory() {
		list = append(list, cty.ObjectVal(map[string]cty.Value{"numaNode": cty.NumberIntVal(int64(m.node)),
			"limits": cty.MapVal(map[string]cty.Value{memory: cty.StringVal(quantity(memory, m.bytes))})}))
	}
	if len(list) > 0 {
		mem = cty.ListVal(list)
	}
	cpus := cty.NullVal(cty.String)
	if r.CPUs != "" {
		cpus = cty.StringVal(r.CPUs)
	}
	return cty.ObjectVal(map[string]cty.Value{
		"kube_reserved": value.StringMap(r.Kube), "system_reserved": value.StringMap(r.System), "reserved_cpus": cpus, "reserved_memory": mem,
		"eviction_hard": value.StringMap(r.EvictionHard), "max_pods": cty.NumberIntVal(int64(r.MaxPods)), "allocatable": value.StringMap(r.Allocatable),
	})
}

// flagsWin warns of flags of the base that the kubelet prefers to the fields decided here, without a word.
func (d *decision) flagsWin() (diags hcl.Diagnostics) {
	fields := map[string]bool{}
	for _, s := range d.contribution().Settings {
		fields[s.Path[0]] = true
	}
	field := map[string]string{"kube-reserved": "kubeReserved", "system-reserved": "systemReserved", "eviction-hard": "evictionHard", "reserved-cpus": "reservedSystemCPUs", "max-pods": "maxPods"}
	for _, f := range d.in.Base.Flags {
		if name := field[f.Name]; name != "" && fields[name] {
			diags = append(diags, origin.Warning(fault.Conflict, d.req.at, "A flag of the base wins over what is reserved here",
				"The base has --%s=%s, and the kubelet prefers a flag to its configuration's %s without a word. Take the flag out of the base.", f.Name, strings.TrimSpace(f.Value), name))
		}
	}
	return diags
}
