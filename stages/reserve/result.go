package reserve

import (
	"slices"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/stages"
)

// origins returns the origins of the policy in the site, and the arithmetic of one key of steps.
func (d *decision) origins(of string) []origin.Origin {
	return slices.Concat(d.req.site, d.steps[of])
}

// contribution returns the settings of this stage. Only leaves are set: other keys of the base are kept.
func (d *decision) contribution() desired.Contribution {
	var c desired.Contribution
	set := func(from []origin.Origin, v any, path ...string) {
		c.Settings = append(
			c.Settings,
			desired.Setting{
				Path:    path,
				Value:   v,
				Delete:  v == nil,
				Origins: from,
			},
		)
	}

	for _, field := range []string{fieldKube, fieldSystem} {
		base := stages.Amounts(d.in.Base.Config, field)
		for _, name := range resources() {
			own, isOwn := d.own[name]
			n, hasAmount := own.kube, true
			if field == fieldSystem {
				n, hasAmount = own.system, own.hasSystem
			}
			_, isInBase := base[name]

			switch {
			case !isOwn && isInBase:
				set(d.origins(stepsTopology), nil, field, name)
			case !isOwn || own.isBase:
			case hasAmount:
				set(d.origins(name), formatQuantity(name, n), field, name)
			case isInBase:
				set(d.origins(name), nil, field, name)
			}
		}
	}

	if len(d.thresholds) > 0 {
		c.Fill = d.fillThresholds
	}
	if d.req.topology {
		set(d.origins(stepsTopology), d.cpus.String(), fieldCPUs)
	} else if list, _ := d.in.Base.Config[fieldCPUs].(string); list != "" && !d.own[cpu].isBase {
		set(d.origins(cpu), nil, fieldCPUs) // or the kubelet would ignore the amount
	}
	if d.req.memoryManager != nil {
		set(d.req.memoryManager.origins, staticMemory, fieldPolicy)
	}
	if d.req.maxPods.amount > 0 {
		set(d.req.maxPods.origins, d.maxPods, "maxPods")
	}

	return c
}
