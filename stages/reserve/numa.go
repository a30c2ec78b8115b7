package reserve

import (
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
)

// nodeMemory is memory of one NUMA node: the reserved memory, or the memory that could be reserved.
type nodeMemory struct {
	node  int
	bytes int64
}

// total returns the bytes that the memory manager requires of reservedMemory in all.
//
// Source: pkg/kubelet/cm/memorymanager/memory_manager.go, validateReservedMemory: the reservation of Node Allocatable.
// A percentage of memory.available counts of MemTotal, also with HugepageAwareEviction (1.37): that changes only when
// pods are evicted.
func (f *reservation) total() int64 {
	return f.amounts[memory].sum() + f.hardMemory
}

// reservedMemory divides the total evenly over the NUMA nodes that have CPUs and memory, in whole MiB, the rest on the
// first. With memory_manager, no node gets more than it has without huge pages: the kubelet would subtract without a
// check (policy_static.go, getDefaultMachineState), and count on almost 2^64 bytes there.
func (f *reservation) reservedMemory() []nodeMemory {
	total := f.total()
	if total == 0 {
		return nil
	}

	withCPUs := func(n tape.NUMANode) bool { return len(n.CPUs) > 0 }
	others := func(n tape.NUMANode) bool { return len(n.CPUs) == 0 && n.MemoryBytes != nil }

	rooms := f.listRooms(withCPUs)
	spare := f.listRooms(others) // such as the memory of GPUs
	rest := total
	for i := range rooms {
		rest -= rooms[i].usable()
	}

	switch {
	case len(rooms) == 0: // a kernel without NUMA has node 0
		return []nodeMemory{{0, total}}
	case f.req.memoryManager == nil || rest <= 0 || len(spare) == 0:
		return divideMemory(total, rooms)
	}

	return append(divideMemory(total-rest, rooms), divideMemory(rest, spare)...)
}

// usable returns the usable memory in bytes, in steps of 64 MiB: the memory of a machine differs by some pages from
// boot to boot, and the configuration must not follow that.
func (m nodeMemory) usable() int64 {
	const step = 64 * mib

	return m.bytes / step * step
}

// listRooms returns the room of some NUMA nodes. Nodes that can keep nothing are left out.
func (f *reservation) listRooms(isWanted func(tape.NUMANode) bool) (rooms []nodeMemory) {
	for _, n := range f.in.Facts.NUMA {
		room := maxBytes
		switch {
		case n.MemoryBytes == nil:
		case f.req.memoryManager != nil:
			room = *n.MemoryBytes - countHugePages(n)
		case *n.MemoryBytes == 0:
			room = 0
		}
		if isWanted(n) && room > 0 {
			rooms = append(rooms, nodeMemory{n.ID, room})
		}
	}
	slices.SortStableFunc(rooms, func(a, b nodeMemory) int {
		return a.node - b.node
	})

	return rooms
}

// countHugePages returns the bytes of a node's huge pages.
func countHugePages(n tape.NUMANode) (sum int64) {
	for size, pages := range n.HugePages {
		if one, err := parseQuantity(memory, size); err == nil {
			sum += one * int64(pages)
		}
	}

	return sum
}

// divideMemory gives each node the same part of total, in whole MiB, or as much as it has room for.
func divideMemory(total int64, rooms []nodeMemory) (out []nodeMemory) {
	parts := make([]int64, len(rooms))
	open := make([]int, len(rooms))
	for i := range rooms {
		open[i] = i
	}

	left := total
	for len(open) > 0 {
		each := roundToMiB(left / int64(len(open)))
		isFull := func(i int) bool {
			return rooms[i].usable() < each
		}
		if !slices.ContainsFunc(open, isFull) {
			for _, i := range open {
				parts[i] = each
				left -= each
			}
			break
		}

		for _, i := range open {
			if isFull(i) {
				parts[i] = rooms[i].usable()
				left -= parts[i]
			}
		}
		open = slices.DeleteFunc(open, isFull)
	}
	addRest(left, parts, rooms)

	for i, r := range rooms {
		if parts[i] > 0 {
			out = append(out, nodeMemory{r.node, parts[i]})
		}
	}

	return out
}

// addRest adds what remains of a division to the first part with room for it. If none has, as much as possible goes to
// each, and the rest to the first: checkRest refuses a reservation of the whole memory.
func addRest(left int64, parts []int64, rooms []nodeMemory) {
	for i, r := range rooms {
		if r.usable()-parts[i] >= left {
			parts[i] += left
			return
		}
	}

	for i, r := range rooms {
		more := min(left, r.bytes-parts[i])
		parts[i] += more
		left -= more
	}
	parts[0] += left
}

// memorySetting returns reservedMemory as the kubelet's configuration has it. parts is the list for people.
func (f *reservation) memorySetting(list []any, parts string) desired.Setting {
	sum := fmt.Sprintf(
		"kubeReserved %s + systemReserved %s + evictionHard %s = %s: %s",
		formatQuantity(memory, f.amounts[memory].kube),
		formatQuantity(memory, f.amounts[memory].system),
		formatQuantity(memory, f.hardMemory),
		formatQuantity(memory, f.total()),
		parts,
	)

	return desired.Setting{
		Path:    []string{fieldMemory},
		Value:   list,
		Origins: append(slices.Clone(f.req.memoryManager.origins), f.step(sum)),
	}
}

// checkMemoryManager refuses a memory manager that has nothing to reserve, and notes a threshold in percent: the memory
// of a machine differs by some bytes from boot to boot, and so would the configuration.
func (f *reservation) checkMemoryManager() {
	if f.req.memoryManager == nil {
		return
	}

	at := f.req.memoryManager.at
	if f.total() == 0 {
		f.Error(fault.ReserveRefused, at, "The memory manager needs some reserved memory",
			"kubeReserved, systemReserved and the threshold of memory.available come to 0, and the kubelet ends with "+
				"%q. Reserve some, for example with floor = { memory = \"1Gi\" }.",
			"[memorymanager] you should specify the system reserved memory")
		return
	}

	threshold := f.out.EvictionHard[signalMemory]
	if _, isPercent, _ := kubelet.ParsePercentage(threshold); !isPercent || f.hardMemory == 0 {
		return
	}

	f.Note(
		fault.ReserveRefused, at, "reservedMemory follows the size of the memory",
		"evictionHard of %s is %s, which is %s here. The size of the memory differs by some bytes from boot to boot, "+
			"and with it the configuration and the kubelet's state of this manager. Write an amount, such as 500Mi.",
		signalMemory, threshold, formatQuantity(memory, f.hardMemory),
	)
}
