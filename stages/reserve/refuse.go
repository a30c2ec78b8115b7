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

func (d *decision) cpuSum() sum {
	s := sum{resource: cpu, capacity: d.m.cpus * 1000}
	if !d.cpus.IsEmpty() {
		s.less = []taken{{"reservedSystemCPUs (" + d.cpus.String() + ")", int64(d.cpus.Size()) * 1000}}
		return s
	}
	s.less = []taken{{"kubeReserved", d.kube.amounts[cpu]}, {"systemReserved", d.system.amounts[cpu]}}
	return s
}

// memorySum is pkg/kubelet/nodestatus' arithmetic: huge pages that are set apart are no memory for pods.
func (d *decision) memorySum() sum {
	s := sum{resource: memory, capacity: d.capacity, less: []taken{
		{"kubeReserved", d.kube.amounts[memory]}, {"systemReserved", d.system.amounts[memory]}, {"evictionHard", d.evictionMemory}}}
	sizes, bytes := d.hugePages()
	for _, size := range sizes {
		s.less = append(s.less, taken{"hugepages-" + size, bytes[size]})
	}
	return s
}

// absurd refuses a result that leaves next to nothing to pods, with all of its arithmetic.
func (d *decision) absurd(s sum) hcl.Diagnostics {
	least, why := leastMemory, ""
	if s.resource == cpu {
		least = leastCPU
	}
	tenth := s.capacity / leastTenth
	if s.resource == memory {
		tenth = wholeMiB(tenth)
	}
	if d.formula[s.resource] && tenth > least {
		least, why = tenth, " (a tenth)"
	}
	if s.rest() >= least {
		return nil
	}
	at, advice := d.req.at, map[string]string{
		gke: "Choose another policy, or bound it with cap", gdc: "Choose another policy, or bound it with cap",
		eks: "Say with max_pods how many pods this machine takes, or bound the formula with cap", aks: "Choose another policy, or bound it with cap",
		static: "Lower what block static reserves", remainder: "Leave more to pods in block remainder",
	}[d.req.policy]
	if f, ok := d.req.floor[s.resource]; ok && d.kube.amounts[s.resource]+d.system.amounts[s.resource] == f.amount {
		at, advice = f.at, "Lower floor."+s.resource
	}
	if s.resource == cpu && d.req.topology {
		at, advice = d.req.cores.at, "Lower topology.cores"
	}
	parts := []string{s.String(), fmt.Sprintf("At least %s%s must remain", quantity(s.resource, least), why)}
	if lines := d.lines(s.resource); len(lines) > 0 {
		parts = append(parts, "Policy "+d.req.policy+": "+strings.Join(lines, "; "))
	}
	parts = append(parts, advice)
	return refuse(at, fmt.Sprintf("Policy %s leaves too little %s to pods", d.req.policy, s.resource), "%s", stages.Sentence(parts...))
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
