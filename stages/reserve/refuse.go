package reserve

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/stages"
)

// What must remain for pods, or the result is refused: a kubelet that reserves more runs without a word, and its
// node takes no pod. What a formula computed must leave a tenth as well; what the site wrote itself need not.
const (
	leastCPU    = 100 // millicores
	leastMemory = 256 * mib
	leastTenth  = 10 // of the capacity, one part in
)

// sum is the capacity of one resource and what is taken from it.
type sum struct {
	resource string
	capacity int64
	less     []taken
}

type taken struct {
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
	fmt.Fprintf(&b, "Capacity %s", quantity(s.resource, s.capacity))
	for _, t := range s.less {
		fmt.Fprintf(&b, " − %s %s", t.what, quantity(s.resource, t.amount))
	}
	fmt.Fprintf(&b, " = allocatable %s", quantity(s.resource, s.rest()))
	return b.String()
}

func (f finished) cpuSum() sum {
	s := sum{resource: cpu, capacity: f.m.cpus * 1000}
	if !f.cpus.IsEmpty() {
		s.less = []taken{{"reservedSystemCPUs (" + f.cpus.String() + ")", int64(f.cpus.Size()) * 1000}}
		return s
	}
	s.less = []taken{{"kubeReserved", f.amounts[cpu].kube}, {"systemReserved", f.amounts[cpu].system}}
	return s
}

// memorySum is pkg/kubelet/nodestatus' arithmetic: huge pages that are set apart are no memory for pods.
func (f finished) memorySum() sum {
	s := sum{resource: memory, capacity: f.capacity, less: []taken{
		{"kubeReserved", f.amounts[memory].kube}, {"systemReserved", f.amounts[memory].system}, {"evictionHard", f.hardMemory}}}
	sizes, bytes := f.hugePages()
	for _, size := range sizes {
		s.less = append(s.less, taken{"hugepages-" + size, bytes[size]})
	}
	return s
}

// isOwn reports whether what is kept of a resource is what the policy has decided, or has found in the base.
func (f finished) isOwn(name string) bool {
	if name == cpu && (f.req.topology || !f.cpus.IsEmpty()) {
		return f.req.topology && f.cpus.Equals(f.decision.cpus)
	}

	return f.amounts[name] == both{f.decision.kube.amounts[name], f.decision.system.amounts[name]}
}

// checkRest refuses a result that leaves next to nothing to pods, with all of its arithmetic.
func (f finished) checkRest(s sum) hcl.Diagnostics {
	least, why := leastMemory, ""
	if s.resource == cpu {
		least = leastCPU
	}
	tenth := s.capacity / leastTenth
	if s.resource == memory {
		tenth = wholeMiB(tenth)
	}
	isOwn := f.isOwn(s.resource)
	if f.formula[s.resource] && isOwn && tenth > least {
		least, why = tenth, " (a tenth)"
	}
	if s.rest() >= least {
		return nil
	}

	parts := []string{s.String(), fmt.Sprintf("At least %s%s must remain", quantity(s.resource, least), why)}
	if lines := f.lines(s.resource); len(lines) > 0 {
		parts = append(parts, "Policy "+f.req.policy+": "+strings.Join(lines, "; "))
	}
	if !isOwn {
		parts = append(parts, "Lower what patch, a drop-in or a flag reserves: it is other than what the policy does")
		return refuse(f.req.at, fmt.Sprintf("Too little %s is left to pods", s.resource), "%s", stages.Sentence(parts...))
	}
	at, advice := f.adviseLess(s.resource)

	return refuse(at, fmt.Sprintf("Policy %s leaves too little %s to pods", f.req.policy, s.resource), "%s",
		stages.Sentence(append(parts, advice)...))
}

// adviseLess returns where the site asks for too much, and what to do there.
func (f finished) adviseLess(resource string) (hcl.Range, string) {
	if resource == cpu && f.req.topology {
		return f.req.cores.at, "Lower topology.cores"
	}
	if b, ok := f.req.floor[resource]; ok && f.amounts[resource].kube+f.amounts[resource].system == b.amount {
		return b.at, "Lower floor." + resource
	}

	return f.req.at, map[string]string{
		gke: "Choose another policy, or bound it with cap", gdc: "Choose another policy, or bound it with cap",
		eks: "Say with max_pods how many pods this machine takes, or bound the formula with cap", aks: "Choose another policy, or bound it with cap",
		static: "Lower what block static reserves", remainder: "Leave more to pods in block remainder",
	}[f.req.policy]
}

func (d *decision) lines(resource string) (out []string) {
	steps := d.steps[resource]
	if resource == cpu && d.req.topology {
		steps = d.steps["topology"]
	}
	for _, s := range steps {
		out = append(out, s.text)
	}
	return out
}
