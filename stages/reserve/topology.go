package reserve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/model/tape"
)

// nodeCores are the cores of one NUMA node as their threads, by first thread.
type nodeCores struct {
	id    int
	cores [][]int
}

// choose chooses whole cores with all of their online threads, lowest threads first: a kubelet refuses offline CPUs,
// and a pod on the sibling of a reserved thread would share its core with the system.
// at is the place of the number of cores.
func choose(f *tape.Facts, want int, spread string, at hcl.Range) (
	set cpuset.CPUSet, text string, refused hcl.Diagnostics,
) {
	nodes, isCertain := coresByNode(f)
	available := 0
	for _, n := range nodes {
		available += len(n.cores)
	}

	switch {
	case available == 0:
		return set, "", refuse(
			at, "The cores are not known, so none can be reserved",
			"Which threads share a core could not be read. Look at `prelet detect`, "+
				"or leave topology out to reserve an amount of cpu.",
		)
	case want > available:
		return set, "", refuse(
			at, formatCores(want)+" cannot be reserved", "The machine has %d. Lower topology.cores.", available,
		)
	case spread != spreadNUMA:
		set, text = choosePacked(nodes, want)
		return set, text, nil
	case !isCertain:
		return set, "", refuse(
			at, "Cores cannot be spread over NUMA nodes",
			"The NUMA node of a core could not be read. Look at `prelet detect`, or write spread = \"packed\".",
		)
	}

	return chooseSpread(nodes, want, at)
}

// choosePacked chooses the first cores of the first node, then of the next.
func choosePacked(nodes []nodeCores, want int) (cpuset.CPUSet, string) {
	var cpus []int
	left := want
	for _, n := range nodes {
		take := min(left, len(n.cores))
		cpus = append(cpus, slices.Concat(n.cores[:take]...)...)
		left -= take
	}
	set := cpuset.New(cpus...)

	return set, fmt.Sprintf("%s, %d threads: CPUs %s", formatCores(want), set.Size(), set)
}

// chooseSpread chooses equally many cores on each node.
func chooseSpread(nodes []nodeCores, want int, at hcl.Range) (
	set cpuset.CPUSet, text string, refused hcl.Diagnostics,
) {
	uneven := fmt.Sprintf("%s cannot be spread evenly over %d NUMA nodes", formatCores(want), len(nodes))
	each := want / len(nodes)

	if want%len(nodes) != 0 {
		advice := fmt.Sprint((each + 1) * len(nodes))
		if each > 0 {
			advice = fmt.Sprintf("%d or %s", each*len(nodes), advice)
		}

		return set, "", refuse(at, uneven, "Write cores = %s, or spread = \"packed\".", advice)
	}

	var cpus []int
	for _, n := range nodes {
		if len(n.cores) < each {
			return set, "", refuse(at, uneven, "NUMA node %d has %d, and %d on each are needed. "+
				"Lower topology.cores, or write spread = \"packed\".", n.id, len(n.cores), each)
		}
		cpus = append(cpus, slices.Concat(n.cores[:each]...)...)
	}
	set = cpuset.New(cpus...)

	return set, fmt.Sprintf("%s, %d on each of %d NUMA nodes, %d threads: CPUs %s",
		formatCores(want), each, len(nodes), set.Size(), set), nil
}

func formatCores(n int) string {
	if n == 1 {
		return "1 core"
	}

	return fmt.Sprintf("%d cores", n)
}

// coresByNode returns the cores of each NUMA node. It is not certain if the node of a core is not known; it counts as
// 0.
func coresByNode(f *tape.Facts) (nodes []nodeCores, isCertain bool) {
	byNode := map[int][][]int{}
	isCertain = true

	for _, core := range f.CPU.Cores {
		if len(core.CPUs) == 0 {
			continue
		}

		threads := slices.Sorted(slices.Values(core.CPUs))
		id, isKnown := nodeOf(f, core, threads[0])
		isCertain = isCertain && (isKnown || len(f.NUMA) <= 1)
		byNode[id] = append(byNode[id], threads)
	}

	for _, id := range slices.Sorted(maps.Keys(byNode)) {
		cores := byNode[id]
		slices.SortStableFunc(cores, func(a, b []int) int {
			return a[0] - b[0]
		})
		nodes = append(nodes, nodeCores{id, cores})
	}

	return nodes, isCertain
}

// nodeOf returns the NUMA node of a core, by the core or by its first thread.
func nodeOf(f *tape.Facts, core tape.CPUCore, thread int) (id int, isKnown bool) {
	if core.Node != nil {
		return *core.Node, true
	}

	i := slices.IndexFunc(
		f.NUMA,
		func(n tape.NUMANode) bool {
			return slices.Contains(n.CPUs, thread)
		},
	)
	if i < 0 {
		return 0, false
	}

	return f.NUMA[i].ID, true
}
