package printer

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/prelet/prelet/internal/world"
)

// noNode is the group of the devices for which the firmware names no NUMA node.
const noNode = -1

// leaf is a device in the drawing of a machine.
type leaf struct {
	address, text string
	functions     []string // its virtual functions
}

// drawing is a tree of lines with their depths.
type drawing struct {
	depths []int
	lines  []string
}

func (d *drawing) add(depth int, line string) {
	d.depths = append(d.depths, depth)
	d.lines = append(d.lines, line)
}

// TopologyText writes the output of `detect --topology`: the NUMA nodes with their threads and memory, and their
// devices in the order of the bus, so that a GPU is next to the network card on the same switch.
func TopologyText(w io.Writer, f world.Facts, s Style) error {
	devices := devicesByNode(f)
	var d drawing
	for _, n := range f.NUMA {
		d.add(0, nodeTitle(n))
		d.addDevices(devices[n.ID])
	}
	if len(devices[noNode]) > 0 {
		d.add(0, "no node: the firmware does not say where these are")
		d.addDevices(devices[noNode])
	}

	b := page{Style: s}
	title := cmp.Or(joinParts(", ", productName(f.Product), textOf(f.CPU.Model)), "machine")
	for _, l := range b.wrap(title, b.Width) {
		b.writeLine(b.bold(l))
	}
	for i, line := range d.lines {
		first, next := branches(d.depths, i)
		lines := []string{cut(line, b.Width-columns(first))}
		if d.depths[i] == 0 {
			lines = b.wrap(line, b.Width-columns(first))
		}
		b.writeLines(first, next, lines)
	}

	return b.flush(w)
}

func (d *drawing) addDevices(leaves []leaf) {
	for _, l := range leaves {
		d.add(1, l.text)
		for _, function := range l.functions {
			d.add(2, function)
		}
	}
}

// devicesByNode returns the accelerators and network cards of each NUMA node, by address.
func devicesByNode(f world.Facts) map[int][]leaf {
	out := map[int][]leaf{}
	add := func(numa *int, l leaf) {
		isKnown := slices.ContainsFunc(f.NUMA, func(n world.NUMANode) bool {
			return numa != nil && n.ID == *numa
		})
		node := noNode
		switch {
		case len(f.NUMA) == 1: // the only place
			node = f.NUMA[0].ID
		case isKnown:
			node = *numa
		}
		out[node] = append(out[node], l)
	}

	for _, a := range f.Accelerators {
		name := or(a.Name, or(a.Device, "?"))
		text := joinParts("  ", or(a.Address, "-"), a.Kind, name, gib(a.MemoryGiB))
		add(a.NUMA, leaf{address: textOf(a.Address), text: text})
	}
	for _, n := range f.NICs {
		name := or(n.Interface, fabric(n))
		model := or(n.Model, or(n.Device, "?"))
		text := joinParts("  ", or(n.Address, "-"), "nic", name, linkState(n), model)
		add(n.NUMA, leaf{textOf(n.Address), text, virtualFunctions(f, n)})
	}
	for _, leaves := range out {
		slices.SortStableFunc(leaves, func(x, y leaf) int {
			return cmp.Compare(x.address, y.address)
		})
	}

	return out
}

// cut shortens a text to a line: the name of a card may be longer, and the table has the whole name.
func cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}

	return string([]rune(text)[:width-1]) + "…"
}

func nodeTitle(n world.NUMANode) string {
	cpus := "no CPUs"
	if len(n.CPUs) > 0 {
		cpus = fmt.Sprintf("%s (%s)", Count(len(n.CPUs), "thread"), ranges(n.CPUs))
	}
	title := fmt.Sprintf("node %d: %s", n.ID, cpus)

	return joinParts(", ", title, memory(n.MemoryBytes), hugePages(n.HugePages))
}

// virtualFunctions returns the number of virtual functions of a card for each of their drivers.
func virtualFunctions(f world.Facts, n world.NIC) (out []string) {
	count := map[string]int{}
	var drivers []string
	for _, p := range f.PCI {
		if p.PhysFn == nil || n.Address == nil || *p.PhysFn != *n.Address {
			continue
		}
		driver := or(p.Driver, "no driver")
		if count[driver] == 0 {
			drivers = append(drivers, driver)
		}
		count[driver]++
	}
	for _, driver := range drivers {
		out = append(out, Count(count[driver], "virtual function")+", "+driver)
	}

	return out
}
