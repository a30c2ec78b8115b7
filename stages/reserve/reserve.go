// Package reserve is the stage that decides what of the machine is kept from pods: it computes kubeReserved,
// systemReserved, evictionHard, reservedSystemCPUs and maxPods from the facts, by the formula of a policy. It is
// pure. Every number comes with its arithmetic, in origins and in refusals.
package reserve

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// The policies.
const (
	gke       = "gke"
	eks       = "eks"
	aks       = "aks"
	gdc       = "gdc"
	static    = "static"
	remainder = "remainder"
)

// The ways that topology chooses cores.
const (
	spreadNUMA   = "numa"
	spreadPacked = "packed"
)

var (
	policyAttr = schema.Attr[string]{Name: "policy", Required: true, Check: schema.OneOf(gke, eks, aks, gdc, static, remainder),
		Doc: "The formula. `gke`, `eks`, `aks`, `gdc`: as those services reserve on their own nodes. `static`: what the block says. `remainder`: what the block leaves to pods, the rest in equal halves to Kubernetes and the system."}
	maxPodsAttr = schema.Attr[float64]{Name: "max_pods", Check: count(1),
		Doc: "The kubelet's maxPods. Without it the base's stays, and formulas that need a number of pods take that, or 110."}
	floorAttr = schema.Attr[map[string]*string]{Name: "floor", Type: cty.Map(cty.String), Check: bounds,
		Doc: "The least that is reserved in all, by resource (`cpu`, `memory`, `ephemeral-storage`), as `{ memory = \"4Gi\" }`. Of memory and storage 0, or at least 16Mi."}
	capAttr = schema.Attr[map[string]*string]{Name: "cap", Type: cty.Map(cty.String), Check: bounds,
		Doc: "The most that is reserved in all, by resource."}

	coresAttr  = schema.Attr[float64]{Name: "cores", Required: true, Check: count(1), Doc: "How many whole cores, hyper-thread siblings included."}
	spreadAttr = schema.Attr[string]{Name: "spread", Default: spreadPacked, Check: schema.OneOf(spreadNUMA, spreadPacked),
		Doc: "`numa`: equally many on each NUMA node that has CPUs. `packed`: the first cores of the first node, then of the next."}

	staticCPU     = schema.Attr[string]{Name: "cpu", Check: quantityOf(cpu), Doc: "CPUs for Kubernetes, as `\"2\"` or `\"500m\"`."}
	staticMemory  = schema.Attr[string]{Name: "memory", Check: quantityOf(memory), Doc: "Memory for Kubernetes, as `\"8Gi\"`; 0, or at least 16Mi."}
	staticStorage = schema.Attr[string]{Name: "ephemeral_storage", Check: quantityOf(storage), Doc: "Ephemeral storage for Kubernetes, as `\"10Gi\"`; 0, or at least 16Mi."}

	remainderCPUs   = schema.Attr[float64]{Name: "cpus", Check: count(0), Doc: "CPUs (threads) that remain for pods. Null, or as many as there are: CPU is left as the base has it."}
	remainderMemory = schema.Attr[string]{Name: "memory", Check: func(s string) error { _, err := parsePercent(s); return err },
		Doc: "Which part of the memory is reserved, as `\"10%\"`: of whole GiB, each half rounded down to a whole GiB. Null: memory is left as the base has it."}

	eksENIs = schema.Attr[float64]{Name: "enis", Check: count(1), Doc: "Network interfaces that the instance type takes. With `ips_per_eni` the memory formula counts ENIs × (IPs − 1) + 2 pods, as EKS does, instead of `max_pods`."}
	eksIPs  = schema.Attr[float64]{Name: "ips_per_eni", Check: count(2), Doc: "Addresses that each of them takes."}
)

// Stage implements stages.Decider.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Decide, Singleton: true, Block: schema.Block{Type: "reserve",
		Doc:    "Keeps a part of the machine from pods, for the kubelet, the runtime and the system. A result that leaves next to nothing to pods is refused, with its arithmetic. The plan and `node.reserved` have what the kubelet gets, whoever sets it: this stage, the base, `patch`, a drop-in of the image in `--config-dir`, or a flag, which the kubelet prefers. The bounds of this stage hold for that as well. The outputs of this stage are of the base and its own part only.",
		Fields: []schema.Field{policyAttr, maxPodsAttr, floorAttr, capAttr},
		Blocks: []schema.Block{
			{Type: "topology", Max: 1, Doc: "Reserves whole cores (reservedSystemCPUs) instead of an amount of cpu.", Fields: []schema.Field{coresAttr, spreadAttr}},
			{Type: static, Max: 1, Doc: "What policy static reserves; all of it is Kubernetes' (kubeReserved).", Fields: []schema.Field{staticCPU, staticMemory, staticStorage}},
			{Type: remainder, Max: 1, Doc: "What policy remainder leaves to pods.", Fields: []schema.Field{remainderCPUs, remainderMemory}},
			{Type: eks, Max: 1, Doc: "What policy eks counts pods by.", Fields: []schema.Field{eksENIs, eksIPs}},
			{Type: gke, Max: 1, Doc: "Policy gke needs nothing more."},
			{Type: aks, Max: 1, Doc: "Policy aks needs nothing more."},
			{Type: gdc, Max: 1, Doc: "Policy gdc needs nothing more."},
		}}}
}

// Outputs implements stages.Stage. Quantities are Kubernetes' canonical text; reserved_memory has the fields of
// KubeletConfiguration, so that it can stand in a patch.
func (Stage) Outputs(stages.Declared) cty.Type {
	quantities := cty.Map(cty.String)
	return cty.Object(map[string]cty.Type{
		"kube_reserved": quantities, "system_reserved": quantities, "reserved_cpus": cty.String,
		"reserved_memory": cty.List(reservedMemoryType()), "eviction_hard": quantities,
		"max_pods": cty.Number, "allocatable": quantities,
	})
}

func reservedMemoryType() cty.Type {
	return cty.Object(map[string]cty.Type{"numaNode": cty.Number, "limits": cty.Map(cty.String)})
}

// Decide implements stages.Decider.
func (s Stage) Decide(cfg schema.Body, in stages.Inputs) (node.Contribution, stages.Output, hcl.Diagnostics) {
	unknown := stages.Output{Value: value.UnknownOutput(s.Outputs(stages.Declared{}))}
	req, known, diags := read(cfg, in.Address)
	if in.NoDetect {
		diags = append(diags, origin.Error(fault.MissingArgument, cfg.Range, "There is no stage \"detect-hw\"",
			"What is reserved is computed from the number of CPUs and the memory. Write: stage \"detect-hw\" \"node\" {}"))
	}
	if diags.HasErrors() || !known || in.Facts == nil && in.Check {
		return node.Contribution{}, unknown, diags
	}
	d := &decision{req: req, in: in}
	for _, step := range []func() hcl.Diagnostics{d.machine, d.base, d.apply, d.bound, d.cores} {
		more := step()
		if diags = append(diags, more...); diags.HasErrors() {
			return node.Contribution{}, unknown, diags
		}
	}
	// What others add is not known yet: the stage's own outputs are of the base and of what it decides itself.
	c := d.contribution()
	alone, _ := node.Merge(in.Base, []node.Contribution{c})
	config, err := stages.EffectiveConfig(alone, nil, in.Kubelet.Version)
	if err != nil {
		return node.Contribution{}, unknown, append(diags, d.baseFault(err.Error())...)
	}
	f, err := d.reckon(config, alone.Flags)
	if err != nil {
		return node.Contribution{}, unknown, append(diags, d.baseFault(err.Error())...)
	}
	c.Reserved = f.reserved()

	return c, stages.Output{Value: f.output()}, diags
}

func refuse(at hcl.Range, summary, detail string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{origin.Error(fault.ReserveRefused, at, summary, "%s", fmt.Sprintf(detail, args...))}
}
