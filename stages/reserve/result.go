package reserve

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
)

// origins returns the origins of the policy in the site, and the arithmetic of one key of steps.
func (d *decision) origins(of string) []origin.Origin {
	return slices.Concat(d.req.site, d.steps[of])
}

// contribution returns the settings of this stage. Only leaves are set: other keys of the base are kept.
func (d *decision) contribution() node.Contribution {
	var c node.Contribution
	set := func(from []origin.Origin, v any, path ...string) {
		c.Settings = append(
			c.Settings,
			node.Setting{
				Path:    path,
				Value:   v,
				Delete:  v == nil,
				Origins: from,
			},
		)
	}

	for _, h := range []half{d.kube, d.system} {
		for _, name := range resources() {
			n, hasAmount := h.amounts[name]
			_, isInBase := h.base[name]
			isReplaced := name == cpu && d.req.topology

			switch {
			case isReplaced && isInBase:
				set(d.origins(stepsTopology), nil, h.field, name)
			case isReplaced || !d.decided[name]:
			case hasAmount:
				set(d.origins(name), formatQuantity(name, n), h.field, name)
			case isInBase:
				set(d.origins(name), nil, h.field, name)
			}
		}
	}

	if len(d.thresholds) > 0 {
		c.Fill = d.fillThresholds
	}
	if d.req.topology {
		set(d.origins(stepsTopology), d.cpus.String(), fieldCPUs)
	}
	if d.dropCPUs {
		set(d.origins(cpu), nil, fieldCPUs)
	}
	if d.req.memoryManager != nil {
		set(d.req.memoryManager.origins, staticMemory, fieldPolicy)
	}
	if d.req.maxPods.amount > 0 {
		set(d.req.maxPods.origins, d.maxPods, "maxPods")
	}

	return c
}

// output returns the stage's outputs, of the type that Outputs declares.
func (f finished) output() cty.Value {
	reservedMemory := cty.ListValEmpty(reservedMemoryType())
	var list []cty.Value
	for _, m := range f.reservedMemory() {
		list = append(list, cty.ObjectVal(map[string]cty.Value{
			"numaNode": cty.NumberIntVal(int64(m.node)),
			"limits":   value.StringMap(map[string]string{memory: formatQuantity(memory, m.bytes)}),
		}))
	}
	if len(list) > 0 {
		reservedMemory = cty.ListVal(list)
	}

	r := f.reserved()
	cpus := cty.NullVal(cty.String)
	if r.CPUs != "" {
		cpus = cty.StringVal(r.CPUs)
	}

	return cty.ObjectVal(map[string]cty.Value{
		"kube_reserved":   value.StringMap(r.Kube),
		"system_reserved": value.StringMap(r.System),
		"reserved_cpus":   cpus,
		"reserved_memory": reservedMemory,
		"eviction_hard":   value.StringMap(r.EvictionHard),
		"max_pods":        cty.NumberIntVal(int64(r.MaxPods)),
		"allocatable":     value.StringMap(r.Allocatable),
	})
}
