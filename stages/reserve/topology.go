package reserve

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/prelet/prelet/internal/world"
)

// fault is why a topology cannot be had on this machine.
type refusal struct{ summary, detail string }

// choose takes whole cores with all of their online threads: a kubelet refuses CPUs that are offline, and a pod on
// the sibling of a reserved thread would share its core with the system. Lowest threads first.
func choose(f *world.Facts, want int, spread string) (cpuset.CPUSet, string, *refusal) {
	byNode, nodes, lost := coresByNode(f)
	have := 0
	for _, list := range byNode {
		have += len(list)
	}
	switch {
	case have == 0:
		return cpuset.New(), "", &refusal{"The cores are not known, so none can be reserved", "Which threads share a core could not be read. Look at `prelet detect`, or reserve an amount of cpu: leave topology out."}
	case want > have:
		return cpuset.New(), "", &refusal{fmt.Sprintf("%s cannot be reserved", cores(want)), fmt.Sprintf("The machine has %d. Lower topology.cores.", have)}
	}
	var cpus []int
	if spread != spreadNUMA {
		left := want
		for _, n := range nodes {
			take := min(left, len(byNode[n]))
			for _, c := range byNode[n][:take] {
				cpus = append(cpus, c...)
			}
			left -= take
		}
		set := cpuset.New(cpus...)
		return set, fmt.Sprintf("%s, %d threads: CPUs %s", cores(want), set.Size(), set), nil
	}
	switch {
	case lost:
		return cpuset.New(), "", &refusal{"Cores cannot be spread over NUMA nodes", "On which node a core is could not be read. Look at `prelet detect`, or write spread = \"packed\"."}
	case want%len(nodes) != 0:
		lower, upper := want/len(nodes)*len(nodes), (want/len(nodes)+1)*len(nodes)
		advice := fmt.Sprintf("%d or %d", lower, upper)
		if lower == 0 {
			advice = fmt.Sprint(upper)
		}
		return cpuset.New(), "", &refusal{fmt.Sprintf("%s cannot be spread evenly over %d NUMA nodes", cores(want), len(nodes)), fmt.Sprintf("Write cores = %s, or spread = \"packed\".", advice)}
	}
	each := want / len(nodes)
	for _, n := range nodes {
		if len(byNode[n]) < each {
			return cpuset.New(), "", &refusal{fmt.Sprintf("%s cannot be spread evenly over %d NUMA nodes", cores(want), len(nodes)), fmt.Sprintf("NUMA node %d has %d, and %d on each are needed. Lower topology.cores, or write spread = \"packed\".", n, len(byNode[n]), each)}
		}
		for _, c := range byNode[n][:each] {
			cpus = append(cpus, c...)
		}
	}
	set := cpuset.New(cpus...)
	return set, fmt.Sprintf("%s, %d on each of %d NUMA nodes, %d threads: CPUs %s", cores(want), each, len(nodes), set.Size(), set), nil
}

func cores(n int) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%d cores", n)
}

// coresByNode lists each node's cores as their threads, by first thread. Lost says that a core's node was not found
// and node 0 was taken for it.
func coresByNode(f *world.Facts) (by map[int][][]int, nodes []int, lost bool) {
	by = map[int][][]int{}
	for _, c := range f.CPU.Cores {
		if len(c.CPUs) == 0 {
			continue
		}
		threads := slices.Sorted(slices.Values(c.CPUs))
		n, ok := 0, false
		if c.Node != nil {
			n, ok = *c.Node, true
		}
		for _, x := range f.NUMA {
			if !ok && slices.Contains(x.CPUs, threads[0]) {
				n, ok = x.ID, true
			}
		}
		lost = lost || !ok && len(f.NUMA) > 1
		by[n] = append(by[n], threads)
	}
	for n, list := range by {
		slices.SortStableFunc(list, func(a, b []int) int { return a[0] - b[0] })
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	return by, nodes, lost
}
