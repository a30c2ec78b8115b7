package printer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
)

// noNode is the group of the devices for which the firmware names no NUMA node.
const noNode = -1

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
func TopologyText(w io.Writer, f tape.Facts, s Style) error {
	devices, err := devicesByNode(f, "devices")
	var d drawing
	for _, n := range f.NUMA {
		d.add(0, nodeTitle(n))
		d.addDevices(f, devices[n.ID])
	}
	if len(devices[noNode]) > 0 {
		d.add(0, "no node: the firmware does not say where these are")
		d.addDevices(f, devices[noNode])
	}

	b := page{Style: s}
	title := cmp.Or(joinParts(", ", productName(f.Product), textOf(f.CPU.Model)), "machine")
	for _, l := range b.wrap(title, b.Width) {
		b.writeLine(b.bold(l))
	}
	for i, line := range d.lines {
		first, next := branches(d.depths, i)
		lines := []string{secret.Cut(line, b.Width-columns(first))}
		if d.depths[i] == 0 {
			lines = b.wrap(line, b.Width-columns(first))
		}
		b.writeLines(first, next, lines)
	}

	return cmp.Or(err, b.flush(w))
}

func (d *drawing) addDevices(f tape.Facts, devices [][]string) {
	for _, device := range devices {
		d.add(1, joinParts("  ", device...))
		for _, function := range virtualFunctions(f, device) {
			d.add(2, function)
		}
	}
}

// devicesByNode returns the accelerators and network cards of each NUMA node, by address, which is their first cell.
// The others are those of a template of views/facts.tmpl.
func devicesByNode(f tape.Facts, name string) (map[int][][]string, error) {
	rows, err := factRows(f, name)
	slices.SortStableFunc(rows, func(a, b []string) int { return cmp.Compare(a[1], b[1]) })
	out := map[int][][]string{}
	for _, row := range rows {
		node := noNode
		isThere := func(n tape.NUMANode) bool { return strconv.Itoa(n.ID) == row[0] }
		if i := slices.IndexFunc(f.NUMA, isThere); i >= 0 {
			node = f.NUMA[i].ID
		}
		if len(f.NUMA) == 1 { // the only place
			node = f.NUMA[0].ID
		}
		out[node] = append(out[node], row[1:])
	}

	return out, err
}

func nodeTitle(n tape.NUMANode) string {
	cpus := "no CPUs"
	if len(n.CPUs) > 0 {
		cpus = fmt.Sprintf("%s (%s)", Count(len(n.CPUs), "thread"), ranges(n.CPUs))
	}
	title := fmt.Sprintf("node %d: %s", n.ID, cpus)

	return joinParts(", ", title, memory(n.MemoryBytes), hugePages(n.HugePages))
}

// virtualFunctions returns the number of virtual functions of a network card for each of their drivers.
func virtualFunctions(f tape.Facts, device []string) (out []string) {
	count := map[string]int{}
	var drivers []string
	for _, p := range f.PCI {
		if device[1] != "nic" || p.PhysFn == nil || *p.PhysFn != device[0] {
			continue
		}
		driver := cmp.Or(textOf(p.Driver), "no driver")
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
