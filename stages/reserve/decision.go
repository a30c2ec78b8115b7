package reserve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/stages"
)

// decision is a request on its way to a contribution. Its steps run in the order of Decide.
type decision struct {
	req request
	in  stages.Inputs

	m        machine
	capacity int64 // bytes, as MemTotal says
	maxPods  int64 // by which the formula counts
	config   *kubelet.Config

	kube, system half
	decided      map[string]bool   // resources that this stage decides
	formula      map[string]bool   // of these, those that a formula computed
	steps        map[string][]step // by resource, "eviction", "topology"

	cpus       cpuset.CPUSet     // topology reserves them whole
	dropCPUs   bool              // the base's reservedSystemCPUs would make the kubelet drop what is decided here
	thresholds map[string]string // of evictionHard, that belong to the policy
}

// half is kubeReserved or systemReserved, as the policy and the base have it.
type half struct {
	field   string
	base    map[string]string // as the base has it
	amounts map[string]int64
}

// step is one line of arithmetic; a bound of the site brings its own place.
type step struct {
	text string
	site []origin.Origin
}

// machine takes from the facts what the formulas need. What could not be read is never taken for 0.
func (d *decision) machine() hcl.Diagnostics {
	f := d.in.Facts
	var missing, prefix string
	switch {
	case f == nil:
		return refuse(d.req.at, "The machine is not known, so nothing can be reserved", "Policy %s computes from the number of CPUs and the memory, and there are no facts: a stage \"detect-hw\" is missing, or it failed. What could not be read must never reserve 0.", d.req.policy)
	case f.CPU.Logical == nil || *f.CPU.Logical < 1:
		missing, prefix = "The number of CPUs", "cpu"
	case f.Memory.TotalBytes == nil || *f.Memory.TotalBytes < 1:
		missing, prefix = "The size of the memory", "memory"
	case *f.CPU.Logical > maxCPUs || *f.Memory.TotalBytes > maxBytes:
		return refuse(d.req.at, "The facts cannot be true", "%d CPUs and %d bytes of memory. Look at `prelet detect`.", *f.CPU.Logical, *f.Memory.TotalBytes)
	}
	if missing != "" {
		why := ""
		for _, u := range f.Unknown {
			if strings.HasPrefix(u.Fact, prefix) {
				why += fmt.Sprintf(" (%s: %s)", u.Fact, u.Why)
			}
		}
		return refuse(d.req.at, missing+" is not known, so nothing can be reserved", "It could not be read%s, and what could not be read must never reserve 0. Look at `prelet detect`.", why)
	}
	d.capacity = *f.Memory.TotalBytes
	d.m = machine{cpus: int64(*f.CPU.Logical), memory: d.capacity / (64 * mib) * (64 * mib)}
	for size, n := range f.Memory.HugePages {
		if one, err := parseQuantity(memory, size); err != nil || one < 1 || int64(n) > d.capacity/one {
			return refuse(d.req.at, "The facts cannot be true", "%d huge pages of %s in %s of memory. Look at `prelet detect`.", n, size, quantity(memory, d.capacity))
		}
	}
	return nil
}

// base reads what the configuration at hand says already.
func (d *decision) base() hcl.Diagnostics {
	d.config = kubelet.NewConfig()
	if err := d.config.Merge(d.in.Base.Config); err != nil {
		return d.baseFault(err.Error())
	}
	d.kube = half{field: "kubeReserved", base: stages.Amounts(d.in.Base.Config, "kubeReserved"), amounts: map[string]int64{}}
	d.system = half{field: "systemReserved", base: stages.Amounts(d.in.Base.Config, "systemReserved"), amounts: map[string]int64{}}
	d.decided, d.formula, d.steps = map[string]bool{}, map[string]bool{}, map[string][]step{}
	base, _ := node.Merge(d.in.Base, nil)
	effective, err := stages.EffectiveConfig(base, nil, d.in.Kubelet.Version)
	if err != nil {
		return d.baseFault(err.Error())
	}
	d.maxPods = d.countPods(effective, base.Flags)
	if n := d.req.maxPods.amount; n > 0 {
		d.maxPods = n
	}
	d.m.pods = d.maxPods
	if d.req.eniPods > 0 {
		d.m.pods = d.req.eniPods
	}
	if d.m.pods > maxCPUs && (d.req.policy == eks || d.req.policy == aks) {
		return refuse(d.req.at, "The number of pods cannot be true", "%d pods. The kubelet's default is %d.", d.m.pods, kubelet.DefaultMaxPods)
	}
	return nil
}

func (d *decision) baseFault(why string) hcl.Diagnostics {
	return hcl.Diagnostics{origin.Error(fault.ConfigInvalid, d.req.at, "What is reserved cannot be reckoned with", "%s", stages.Sentence(why, "Mend it at its source; nothing was changed on this node"))}
}

// apply lays the policy over the base.
func (d *decision) apply() hcl.Diagnostics {
	shares, eviction := d.req.shares(d.m)
	d.thresholds = eviction
	var diags hcl.Diagnostics
	for _, s := range shares {
		if s.resource == cpu && d.req.topology {
			if !s.formula { // the site wrote it; a formula just has no say
				diags = append(diags, origin.Note(fault.OverrideIgnored, d.req.cores.at, "cpu of block "+d.req.policy+" is not used", "With topology whole cores are reserved, and the kubelet drops an amount of cpu. %s.", strings.Join(s.steps, "; ")))
			}
			continue // whole cores instead
		}
		d.decided[s.resource], d.formula[s.resource] = true, s.formula
		d.kube.amounts[s.resource] = s.kube
		if s.halves {
			d.system.amounts[s.resource] = s.system
		}
		if s.resource == memory && s.formula && d.req.policy != eks && d.capacity != d.m.memory {
			d.steps[memory] = []step{{text: fmt.Sprintf("MemTotal %s, rounded down to 64Mi: %s", quantity(memory, d.capacity), quantity(memory, d.m.memory))}}
		}
		if s.halves && s.resource == memory && s.kube == 0 && *d.req.percent > 0 {
			diags = append(diags, origin.Note(fault.ReserveRefused, d.req.at, "No memory is reserved", "%s. Another policy, or floor.memory, reserves some.", strings.Join(s.steps, "; ")))
		}
		for _, text := range s.steps {
			d.steps[s.resource] = append(d.steps[s.resource], step{text: text})
		}
	}
	for _, h := range []half{d.kube, d.system} {
		for _, name := range resources() {
			text, ok := h.base[name]
			if !ok || d.decided[name] || name == cpu && d.req.topology {
				continue
			}
			n, err := parseQuantity(name, text)
			if err != nil {
				return d.baseFault(h.field + "." + name + ": " + err.Error())
			}
			h.amounts[name] = n
		}
	}
	return diags
}

// bound applies floor and cap to the sum of both halves. What the policy halves stays halved; else the difference
// is Kubernetes', as far as it reaches.
func (d *decision) bound() hcl.Diagnostics {
	for _, name := range resources() {
		sum := d.kube.amounts[name] + d.system.amounts[name]
		want, by, word := sum, bound{}, ""
		if f, ok := d.req.floor[name]; ok && sum < f.amount {
			want, by, word = f.amount, f, "floor"
		}
		if c, ok := d.req.cap[name]; ok && sum > c.amount {
			want, by, word = c.amount, c, "cap"
		}
		if word == "" {
			continue
		}
		_, halved := d.system.amounts[name]
		halved = halved && d.decided[name]
		if halved {
			unit := mib
			if name == cpu {
				unit = 1
			}
			d.system.amounts[name] = want / 2 / unit * unit
			d.kube.amounts[name] = want - d.system.amounts[name]
		} else {
			d.system.amounts[name] = min(d.system.amounts[name], want)
			d.kube.amounts[name] = want - d.system.amounts[name]
			if _, ok := d.system.base[name]; !ok || d.decided[name] {
				delete(d.system.amounts, name)
			}
		}
		d.decided[name] = true
		d.steps[name] = append(d.steps[name], step{text: fmt.Sprintf("%s.%s: %s becomes %s", word, name, quantity(name, sum), quantity(name, want)), site: by.origins})
	}
	return nil
}

// cores chooses reservedSystemCPUs, or finds that those of the base are in the way.
func (d *decision) cores() hcl.Diagnostics {
	if d.req.topology {
		cpus, text, refused := choose(d.in.Facts, int(d.req.cores.amount), d.req.spread)
		if refused != nil {
			return refuse(d.req.cores.at, refused.summary, "%s", refused.detail)
		}
		d.cpus = cpus
		d.steps["topology"] = []step{{text: text, site: d.req.cores.origins}}
		return nil
	}
	v, _ := d.config.Get("/reservedSystemCPUs")
	text, _ := v.(string)
	d.dropCPUs = text != "" && d.decided[cpu]

	return nil
}

// hugePages lists the sizes that have pages, with their bytes.
func (d *decision) hugePages() (sizes []string, bytes map[string]int64) {
	bytes = map[string]int64{}
	for size, n := range d.in.Facts.Memory.HugePages {
		if one, err := parseQuantity(memory, size); err == nil && n > 0 { // machine has looked at them
			sizes, bytes[size] = append(sizes, size), one*int64(n)
		}
	}
	slices.Sort(sizes)
	return sizes, bytes
}
