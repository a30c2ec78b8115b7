package reserve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/stages"
)

// The keys of decision.steps that are not resources.
const (
	stepsEviction = "eviction"
	stepsTopology = "topology"
)

// The fields of KubeletConfiguration.
const (
	fieldKube   = "kubeReserved"
	fieldSystem = "systemReserved"
	fieldCPUs   = "reservedSystemCPUs"
	fieldMemory = "reservedMemory"
	fieldHard   = "evictionHard"
	fieldPolicy = "memoryManagerPolicy"
)

// decision turns a request into a contribution. Its steps run in the order of Decide.
type decision struct {
	req request
	in  stages.Inputs

	m        machine
	capacity int64 // bytes, MemTotal
	maxPods  int64 // that the formula counts

	own        map[string]share           // by resource; without that of cpu if topology replaces it
	steps      map[string][]origin.Origin // the arithmetic, by resource, stepsEviction or stepsTopology
	cpus       cpuset.CPUSet              // that topology reserves
	thresholds map[string]string          // of evictionHard, by the policy
}

// collectMachine takes the input of the formulas from the facts. An unknown fact is an error and never counts as 0.
func (d *decision) collectMachine() hcl.Diagnostics {
	f := d.in.Facts
	if f == nil {
		return refuse(
			d.req.at,
			"The machine is not known, so nothing can be reserved",
			"Policy %s computes from the number of CPUs and the memory, and no facts are known: "+
				"a stage \"detect-hw\" is missing, or it failed. Unknown facts must not reserve 0.",
			d.req.policy,
		)
	}

	cpus := f.CPU.Logical
	bytes := f.Memory.TotalBytes
	switch {
	case cpus == nil || *cpus < 1:
		return d.refuseUnknown("The number of CPUs", "cpu")
	case bytes == nil || *bytes < 1:
		return d.refuseUnknown("The size of the memory", "memory")
	case *cpus > maxCPUs || *bytes > maxBytes:
		return refuse(d.req.at, "The facts cannot be true",
			"%d CPUs and %d bytes of memory. Look at `prelet detect`.", *cpus, *bytes)
	}

	d.capacity = *bytes
	counted := d.capacity
	var diags hcl.Diagnostics
	switch ofGPUs, unknown := f.CountGPUBytes(); {
	case unknown != "" && d.req.excludesGPUs:
		diags = append(diags, origin.Warning(fault.KubeletMachine, d.req.at, "The memory of GPUs is not known",
			"gpu_memory = %q leaves nothing out of the formula: %s. Look at `prelet detect`.",
			gpuMemoryExclude, unknown))
	case ofGPUs <= 0:
	case d.req.excludesGPUs && ofGPUs < counted:
		counted -= ofGPUs
		d.addStep(memory, fmt.Sprintf("MemTotal %s without %s of GPUs: %s", formatQuantity(memory, d.capacity),
			formatQuantity(memory, ofGPUs), formatQuantity(memory, counted)))
	default:
		diags = append(diags, origin.Warning(fault.KubeletMachine, d.req.at, "MemTotal contains the memory of GPUs",
			"%s of %s are on NUMA nodes without CPUs, and the kubelet offers them to pods. Let the driver keep them: "+
				"CDMM, NVreg_CoherentGPUMemoryMode=driver. gpu_memory = %q leaves them out of the formula only.",
			formatQuantity(memory, ofGPUs), formatQuantity(memory, d.capacity), gpuMemoryExclude))
	}
	d.m = machine{
		cpus:   int64(*cpus),
		memory: counted / (64 * mib) * (64 * mib),
	}

	for size, n := range f.Memory.HugePages {
		one, err := parseQuantity(memory, size)
		if err != nil || one < 1 || int64(n) > d.capacity/one {
			return refuse(
				d.req.at,
				"The facts cannot be true",
				"%d huge pages of %s in %s of memory. Look at `prelet detect`.",
				n,
				size,
				formatQuantity(memory, d.capacity),
			)
		}
	}

	return diags
}

func (d *decision) refuseUnknown(what, factPrefix string) hcl.Diagnostics {
	why := ""
	for _, u := range d.in.Facts.Unknown {
		if strings.HasPrefix(u.Fact, factPrefix) {
			why += fmt.Sprintf(" (%s: %s)", u.Fact, u.Why)
		}
	}

	return refuse(
		d.req.at,
		what+" is not known, so nothing can be reserved",
		"It could not be read%s, and unknown facts must not reserve 0. Look at `prelet detect`.",
		why,
	)
}

// collectBase takes the number of pods of the base.
func (d *decision) collectBase() hcl.Diagnostics {
	base, err := d.merge()
	if err != nil {
		return d.configError(err)
	}

	d.maxPods = stages.CountPods(base.Effective, base.Flags, d.m.cpus)
	if n := d.req.maxPods.amount; n > 0 {
		d.maxPods = n
	}
	d.m.pods = d.maxPods
	if d.req.eniPods > 0 {
		d.m.pods = d.req.eniPods
	}

	countsPods := d.req.policy == eks || d.req.policy == aks
	if countsPods && d.m.pods > maxCPUs {
		return refuse(d.req.at, "The number of pods cannot be true",
			"%d pods. The kubelet's default is %d.", d.m.pods, kubelet.DefaultMaxPods)
	}

	return nil
}

// merge returns the node of the base and some contributions, with the configuration that its kubelet works with.
func (d *decision) merge(c ...desired.Contribution) (n desired.Node, err error) {
	n, _ = desired.Merge(d.in.Base, c)
	merged, err := stages.MergeDropIns(n, nil, d.in.Kubelet.KnownVersion())
	if err == nil {
		n.Effective = merged.Effective(n.Flags)
	}

	return n, err
}

func (d *decision) configError(err error) hcl.Diagnostics {
	return hcl.Diagnostics{
		origin.Error(fault.ConfigInvalid, d.req.at, "The reservation cannot be computed", "%s",
			stages.Sentence(err.Error(), "Fix it at its source; nothing was changed on this node")),
	}
}

// applyPolicy applies the policy and the bounds, and takes the amounts that the policy does not decide from the base.
func (d *decision) applyPolicy() (diags hcl.Diagnostics) {
	shares, thresholds := d.req.computeShares(d.m)
	d.thresholds = thresholds

	for _, s := range shares {
		if s.resource != cpu || !d.req.topology {
			diags = append(diags, d.applyShare(s)...)
			continue
		}
		if !s.isComputed { // a formula needs no note: the site did not write its amount
			diags = append(diags, origin.Note(
				fault.OverrideIgnored,
				d.req.cores.at,
				"cpu of block "+d.req.policy+" is not used",
				"With topology whole cores are reserved, and the kubelet ignores an amount of cpu. %s.",
				strings.Join(s.steps, "; "),
			))
		}
	}

	kube := stages.Amounts(d.in.Base.Config, fieldKube)
	system := stages.Amounts(d.in.Base.Config, fieldSystem)
	for _, name := range resources() {
		if _, isDecided := d.own[name]; isDecided || name == cpu && d.req.topology {
			continue
		}

		base, err := parseAmounts(kube, system, name)
		if err != nil {
			return d.configError(err)
		}
		_, hasSystem := system[name]
		d.own[name] = share{amounts: base, hasSystem: hasSystem, isBase: true}
	}
	d.applyBounds()

	return diags
}

func (d *decision) applyShare(s share) (diags hcl.Diagnostics) {
	d.own[s.resource] = s

	if s.resource == memory {
		isRounded := s.isComputed && d.req.policy != eks && d.capacity != d.m.memory && !d.req.excludesGPUs
		if isRounded {
			d.addStep(memory, fmt.Sprintf("MemTotal %s, rounded down to 64Mi: %s",
				formatQuantity(memory, d.capacity), formatQuantity(memory, d.m.memory)))
		}
		if s.hasSystem && s.kube == 0 && d.req.percent.amount > 0 {
			diags = append(
				diags,
				origin.Note(
					fault.ReserveRefused,
					d.req.at,
					"No memory is reserved",
					"%s. Another policy, or floor.memory, reserves some.",
					strings.Join(s.steps, "; "),
				),
			)
		}
	}

	d.steps[s.resource] = slices.Concat(d.steps[s.resource], s.site.origins)
	for _, text := range s.steps {
		d.addStep(s.resource, text)
	}

	return diags
}

// addStep adds a line of arithmetic. A bound of the site has its own place, which comes before.
func (d *decision) addStep(of, text string, site ...origin.Origin) {
	d.steps[of] = slices.Concat(d.steps[of], site, []origin.Origin{d.step(text)})
}

// step returns a line of arithmetic.
func (d *decision) step(text string) origin.Origin {
	return origin.Origin{
		Kind: origin.Policy,
		Role: origin.Value,
		Ref:  "policy " + d.req.policy,
		Text: text,
	}
}

// applyBounds applies floor and cap to the sum of both amounts. If the policy halves the resource, so does the result;
// otherwise kubeReserved takes the difference as far as it reaches.
func (d *decision) applyBounds() {
	for _, name := range resources() {
		if boundName, b, ok := d.req.findViolated(name, d.own[name].sum()); ok {
			d.setSum(name, boundName, b)
		}
	}
}

func (d *decision) setSum(name, boundName string, b bound) {
	own := d.own[name]
	d.addStep(name, fmt.Sprintf("%s.%s: %s becomes %s",
		boundName, name, formatQuantity(name, own.sum()), formatQuantity(name, b.amount)), b.origins...)

	switch {
	case own.hasSystem && own.isBase:
		own.system = min(own.system, b.amount)
	case own.hasSystem && name == cpu:
		own.system = b.amount / 2
	case own.hasSystem:
		own.system = roundToMiB(b.amount / 2)
	}

	own.kube = b.amount - own.system
	own.isBase = false
	d.own[name] = own
}

func (d *decision) chooseCPUs() hcl.Diagnostics {
	if !d.req.topology {
		return nil
	}

	cores := int(d.req.cores.amount)
	cpus, text, refused := choose(d.in.Facts, cores, d.req.spread, d.req.cores.at)
	if refused != nil {
		return refused
	}
	d.cpus = cpus
	d.addStep(stepsTopology, text, d.req.cores.origins...)

	return nil
}
