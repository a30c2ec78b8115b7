package reserve

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/stages"
)

// The least that must remain for pods: a kubelet that reserves more runs silently, and its node takes no pod. A
// computed reservation must also leave a tenth; a reservation that the site wrote need not.
const (
	leastCPU    = 100 // millicores
	leastMemory = 256 * mib
	leastTenth  = 10 // one part in
)

// sum is the capacity of one resource and the amounts that are subtracted from it.
type sum struct {
	resource string
	capacity int64
	less     []subtrahend
}

type subtrahend struct {
	what   string
	amount int64
}

func (s sum) rest() int64 {
	n := s.capacity
	for _, t := range s.less {
		n -= t.amount
	}

	return n
}

func (s sum) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Capacity %s", s.format(s.capacity))
	for _, t := range s.less {
		fmt.Fprintf(&b, " − %s %s", t.what, s.format(t.amount))
	}
	fmt.Fprintf(&b, " = allocatable %s", s.format(s.rest()))

	return b.String()
}

// format returns an amount in the unit of the whole sum.
func (s sum) format(n int64) string {
	if s.resource == cpu || n == 0 {
		return formatQuantity(s.resource, n)
	}

	return fmt.Sprintf("%dMi", int64(math.Round(float64(n)/float64(mib))))
}

func (f *reservation) cpuSum() sum {
	s := sum{cpu, f.m.cpus * 1000, f.reservedFor(cpu)}
	if !f.cpus.IsEmpty() {
		s.less = []subtrahend{{fieldCPUs + " (" + f.cpus.String() + ")", f.amounts[cpu].kube}}
	}

	return s
}

// memorySum is the arithmetic of pkg/kubelet/nodestatus: huge pages do not count as memory for pods.
func (f *reservation) memorySum() sum {
	s := sum{memory, f.capacity, append(f.reservedFor(memory), subtrahend{fieldHard, f.hardMemory})}

	bytes := f.hugePages()
	for _, size := range slices.Sorted(maps.Keys(bytes)) {
		s.less = append(s.less, subtrahend{hugePagesPrefix + size, bytes[size]})
	}

	return s
}

func (f *reservation) reservedFor(resource string) []subtrahend {
	a := f.amounts[resource]

	return []subtrahend{{fieldKube, a.kube}, {fieldSystem, a.system}}
}

// isOwn reports whether the reservation of a resource was decided by this stage or found in the base.
func (f *reservation) isOwn(name string) bool {
	if name == cpu && (f.req.topology || !f.cpus.IsEmpty()) {
		return f.req.topology && f.cpus.Equals(f.decision.cpus)
	}

	return f.amounts[name] == f.own[name].amounts
}

// computeLeast returns the amount of a resource that must remain for pods, and why.
func (f *reservation) computeLeast(s sum) (least int64, why string) {
	least = leastMemory
	tenth := roundToMiB(s.capacity / leastTenth)
	if s.resource == cpu {
		least = leastCPU
		tenth = s.capacity / leastTenth
	}

	if f.own[s.resource].isComputed && f.isOwn(s.resource) && tenth > least {
		return tenth, " (a tenth)"
	}

	return least, ""
}

// checkRest refuses a result that leaves next to nothing to pods, with its arithmetic.
func (f *reservation) checkRest(s sum) {
	least, why := f.computeLeast(s)
	if s.rest() >= least {
		return
	}

	parts := []string{
		s.String(),
		fmt.Sprintf("At least %s%s must remain", s.format(least), why),
	}
	isThreshold := s.resource == memory && f.capacity-f.hardMemory < least // whatever the policy reserves
	if lines := f.lines(s.resource); len(lines) > 0 && !isThreshold {
		parts = append(parts, "Policy "+f.req.policy+": "+strings.Join(lines, "; "))
	}

	summary := fmt.Sprintf("Too little %s is left to pods", s.resource)
	at := f.placeOf(fieldKube, s.resource)
	advice := "Lower what patch, a drop-in or a flag reserves: it overrides the policy"
	switch {
	case isThreshold:
		at = f.placeOf(fieldHard, signalMemory)
		advice = "Lower " + signalMemory + " of evictionHard"
	case f.isOwn(s.resource):
		at, advice = f.adviseLess(s.resource)
		summary = fmt.Sprintf("Policy %s leaves too little %s to pods", f.req.policy, s.resource)
	}

	f.Error(fault.ReserveRefused, at, summary, "%s", stages.Sentence(append(parts, advice)...))
}

// placeOf returns where the site sets a field of the finished configuration; the policy if it does not.
func (f *reservation) placeOf(path ...string) hcl.Range {
	return desired.Setting{Origins: f.from[desired.Setting{Path: path}.Pointer()]}.FindRange(f.req.at)
}

// adviseLess returns where the site reserves too much, and how to reduce it.
func (f *reservation) adviseLess(resource string) (hcl.Range, string) {
	if resource == cpu && f.req.topology {
		return f.req.cores.at, "Lower topology.cores"
	}
	if b, ok := f.req.floor[resource]; ok &&
		f.amounts[resource].sum() == b.amount {
		return b.at, "Lower floor." + resource
	}

	at := f.own[resource].site.at
	if at.Filename == "" {
		at = f.req.at
	}
	switch f.req.policy {
	case eks:
		return f.req.at, "Set max_pods to what this machine takes, or bound the formula with cap"
	case static:
		return at, "Lower what block static reserves"
	case remainder:
		return at, "Leave more to pods in block remainder"
	}

	return f.req.at, "Choose another policy, or bound it with cap"
}

func (d *decision) lines(resource string) (out []string) {
	of := resource
	if resource == cpu && d.req.topology {
		of = stepsTopology
	}
	for _, s := range d.steps[of] {
		if s.Kind == origin.Policy {
			out = append(out, s.Text)
		}
	}

	return out
}
