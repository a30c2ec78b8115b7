package reserve

import (
	"encoding/json"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/stages"
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

// output returns the stage's outputs, which are named as the parts of the reservation are in JSON.
func (s Stage) output(r node.Reserved) cty.Value {
	r.Origins = nil            // no part of the outputs, and more text than all of them
	text, _ := json.Marshal(r) // cannot fail: it has texts and numbers only
	v, _ := value.FromJSONTyped(text, s.Outputs(stages.Declared{}))

	return v
}
