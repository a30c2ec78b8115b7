// Package reserve is the stage that reserves a part of the machine for the kubelet and the system: kubeReserved,
// systemReserved, evictionHard, reservedSystemCPUs and maxPods, by the formula of a policy. Decide is pure and records
// the arithmetic of every number in origins and errors. It must not read the machine: the facts come from detect-hw.
package reserve

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
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

// staticMemory is the value of memory_manager, and the kubelet's policy.
const staticMemory = "Static"

// gpuMemoryExclude is the value of gpu_memory.
const gpuMemoryExclude = "exclude"

// The values of topology.spread.
const (
	spreadNUMA   = "numa"
	spreadPacked = "packed"
)

var (
	policyAttr = schema.Attr[string]{
		Name:     "policy",
		Required: true,
		NullCode: fault.MissingArgument,
		Null:     "No default: write one of gke, eks, aks, gdc, static, remainder.",
		OneOf:    policies(),
		Doc: "The formula. `gke`, `eks`, `aks`, `gdc`: as those services reserve on their own nodes. " +
			"`static`: the amounts in the block. `remainder`: the block says what remains for pods, " +
			"the rest is reserved in equal halves for Kubernetes and the system.",
	}
	maxPodsAttr = schema.Attr[int64]{
		Name:  "max_pods",
		Check: count(1),
		Doc: "The kubelet's maxPods. By default the value of the base is kept, " +
			"and formulas that need a number of pods take that, or 110.",
	}
	floorAttr = schema.Attr[map[string]*string]{
		Name:  "floor",
		Type:  cty.Map(cty.String),
		Check: bounds,
		Doc: "The least that is reserved in all, not an addition, by resource (`cpu`, `memory`, " +
			"`ephemeral-storage`), as `{ memory = \"4Gi\" }`. Of memory and storage 0, or at least 16Mi.",
	}
	capAttr = schema.Attr[map[string]*string]{
		Name:  "cap",
		Type:  cty.Map(cty.String),
		Check: bounds,
		Doc:   "The most that is reserved in all, by resource.",
	}

	gpuMemoryAttr = schema.Attr[string]{
		Name:  "gpu_memory",
		OneOf: []string{gpuMemoryExclude},
		Doc: "With `exclude`, formulas count MemTotal without `memory.gpu_bytes`, on machines whose driver makes the " +
			"memory of GPUs the system's. Null, or if that is null: all of it, with a warning where there may be some.",
	}
	memoryManagerAttr = schema.Attr[string]{
		Name:  "memory_manager",
		OneOf: []string{staticMemory},
		Doc: "With `Static`, the kubelet gets `memoryManagerPolicy: Static`, and the `reservedMemory` " +
			"that this requires, to the byte: what kubeReserved, systemReserved and the threshold of " +
			"memory.available of the finished node come to, drop-ins and flags included, in equal parts " +
			"on the NUMA nodes that have CPUs, as far as their memory without huge pages reaches. " +
			"Null: neither is set.",
	}

	coresAttr = schema.Attr[int64]{
		Name:     "cores",
		Required: true,
		Check:    count(1),
		Doc: "How many whole cores, hyper-thread siblings included. " +
			"Null: as without the block, for kinds of nodes on which an amount of cpu is reserved.",
	}
	spreadAttr = schema.Attr[string]{
		Name:    "spread",
		Default: spreadPacked,
		OneOf:   []string{spreadNUMA, spreadPacked},
		Doc: "`numa`: equally many on each NUMA node that has CPUs. " +
			"`packed`: the first cores of the first node, then of the next.",
	}

	staticCPU = schema.Attr[string]{
		Name:  "cpu",
		Check: quantityOf(cpu),
		Doc:   "CPUs for Kubernetes, as `\"2\"` or `\"500m\"`.",
	}
	staticBytes = schema.Attr[string]{
		Name:  "memory",
		Check: quantityOf(memory),
		Doc:   "Memory for Kubernetes, as `\"8Gi\"`; 0, or at least 16Mi.",
	}
	staticStorage = schema.Attr[string]{
		Name:  "ephemeral_storage",
		Check: quantityOf(storage),
		Doc:   "Ephemeral storage for Kubernetes, as `\"10Gi\"`; 0, or at least 16Mi.",
	}

	remainderCPUs = schema.Attr[int64]{
		Name:  "cpus",
		Check: count(0),
		Doc: "CPUs (threads) that remain for pods. Null, or at least as many as the machine has: " +
			"the base's reservation of CPU is kept.",
	}
	remainderMemory = schema.Attr[string]{
		Name: "memory",
		Check: func(s string) error {
			_, err := parsePercent(s)
			return err
		},
		Doc: "Which part of the memory is reserved, as `\"10%\"`: of whole GiB, " +
			"each half rounded down to a whole GiB. Null: the base's reservation of memory is kept.",
	}

	eksENIs = schema.Attr[int64]{
		Name:  "enis",
		Check: count(1),
		Doc: "Network interfaces that the instance type takes. " +
			"With `ips_per_eni` the memory formula counts ENIs × (IPs − 1) + 2 pods, as EKS does, " +
			"instead of `max_pods`.",
	}
	eksIPs = schema.Attr[int64]{
		Name:  "ips_per_eni",
		Check: count(2),
		Doc:   "Addresses that each of them takes.",
	}
)

func policies() []string {
	return []string{gke, eks, aks, gdc, static, remainder}
}

// Stage implements stages.Decider.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	block := func(name, doc string, fields ...schema.Field) schema.Block {
		return schema.Block{
			Type:   name,
			Max:    1,
			Doc:    doc,
			Fields: fields,
		}
	}

	return stages.Spec{
		Phase:     schema.Decide,
		Singleton: true,
		Block: schema.Block{
			Type: "reserve",
			Doc: "Keeps a part of the machine from pods, for the kubelet, the runtime and the system. " +
				"A result that leaves next to nothing to pods is refused, with its arithmetic. " +
				"The plan and `node.reserved` have the kubelet's effective reservation, from any source: " +
				"this stage, the base, `patch`, a drop-in of the image in `--config-dir`, or a flag, " +
				"which the kubelet prefers. The bounds of this stage apply to that as well. " +
				"The outputs of this stage are of the base and its own part only. " +
				"No argument sets systemReserved: write it in `patch` of `kubelet_config`, if the base has none.",
			Fields: []schema.Field{policyAttr, maxPodsAttr, floorAttr, capAttr, gpuMemoryAttr, memoryManagerAttr},
			Blocks: []schema.Block{
				block(
					"topology",
					"Reserves whole cores (reservedSystemCPUs) instead of an amount of cpu.",
					coresAttr,
					spreadAttr,
				),
				block(
					static,
					"What policy static reserves; all of it is Kubernetes' (kubeReserved).",
					staticCPU,
					staticBytes,
					staticStorage,
				),
				block(remainder, "What policy remainder leaves to pods.", remainderCPUs, remainderMemory),
				block(eks, "What policy eks counts pods by.", eksENIs, eksIPs),
				block(gke, "Policy gke needs nothing more."),
				block(aks, "Policy aks needs nothing more."),
				block(gdc, "Policy gdc needs nothing more."),
			},
		},
	}
}

// Outputs implements stages.Stage. Quantities are in Kubernetes' canonical form; reserved_memory has the fields of
// KubeletConfiguration, so that it can be used in a patch.
func (Stage) Outputs(stages.Declared) cty.Type {
	quantities := cty.Map(cty.String)

	return cty.Object(map[string]cty.Type{
		"kube_reserved":   quantities,
		"system_reserved": quantities,
		"reserved_cpus":   cty.String,
		"reserved_memory": cty.List(cty.Object(map[string]cty.Type{
			"numaNode": cty.Number,
			"limits":   quantities,
		})),
		"eviction_hard": quantities,
		"max_pods":      cty.Number,
		"allocatable":   quantities,
	})
}

// Decide implements stages.Decider.
func (s Stage) Decide(
	cfg schema.Body, in stages.Inputs,
) (desired.Contribution, stages.Output, hcl.Diagnostics) {
	unknown := stages.Output{Value: value.UnknownOutput(s.Outputs(stages.Declared{}))}

	req, isKnown, diags := read(cfg)
	if in.NoDetect {
		diags = append(
			diags,
			origin.Error(
				fault.MissingArgument,
				cfg.Range,
				"No stage \"detect-hw\"",
				"What is reserved is computed from the number of CPUs and the memory. Write: "+
					"stage \"detect-hw\" \"node\" {}",
			),
		)
	}
	if diags.HasErrors() || !isKnown || in.Facts == nil && in.Check {
		return desired.Contribution{}, unknown, diags
	}

	d := &decision{
		req:   req,
		in:    in,
		own:   map[string]share{},
		steps: map[string][]origin.Origin{},
	}
	steps := []func() hcl.Diagnostics{
		d.collectMachine,
		d.collectBase,
		d.applyPolicy,
		d.chooseCPUs,
	}
	for _, step := range steps {
		diags = append(diags, step()...)
		if diags.HasErrors() {
			return desired.Contribution{}, unknown, diags
		}
	}

	c := d.contribution()
	own, err := d.merge(c) // additions of other stages are not known yet
	var f *reservation
	if err == nil {
		f, err = d.reserve(own)
	}
	if err != nil {
		return desired.Contribution{}, unknown, append(diags, d.configError(err)...)
	}

	c.Reserved = f.out
	c.Reserved.Finish = d.finish
	c.Settings = append(c.Settings, f.out.Settings...)

	return c, stages.Output{Value: f.out.Value(s.Outputs(stages.Declared{}))}, diags
}

func refuse(at hcl.Range, summary, detail string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{
		origin.Error(fault.ReserveRefused, at, summary, detail, args...),
	}
}
