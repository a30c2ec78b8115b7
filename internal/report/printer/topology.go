package present

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// leaf is a device in the tree of a machine.
type leaf struct {
	address, text string
	below         []string
}

// TopologyText is what `detect --topology` prints: the NUMA nodes with their threads and memory, and on each the devices in
// the order of the bus, so that a GPU stands beside the network card that it shares a switch with. What the firmware gives
// no node hangs on none.
func TopologyText(w io.Writer, f world.Facts, s Style) error {
	on := map[int][]leaf{}
	var nodeless []leaf
	hang := func(numa *int, l leaf) {
		if len(f.NUMA) == 1 { // there is but one place
			numa = &f.NUMA[0].ID
		}
		if numa == nil || !slices.ContainsFunc(f.NUMA, func(n world.NUMANode) bool { return n.ID == *numa }) {
			nodeless = append(nodeless, l)
			return
		}
		on[*numa] = append(on[*numa], l)
	}
	for _, a := range f.Accelerators {
		text := strings.Join(slices.DeleteFunc([]string{or(a.Address, "-"), a.Kind, or(a.Name, or(a.Device, "?")), gib(a.MemoryGiB)}, isEmpty), "  ")
		hang(a.NUMA, leaf{or(a.Address, ""), text, nil})
	}
	for _, n := range f.NICs {
		state := or(n.Link, "")
		if n.SpeedGbps != nil {
			state += fmt.Sprintf(" %gG", *n.SpeedGbps)
		}
		text := strings.Join(slices.DeleteFunc([]string{or(n.Address, "-"), "nic", or(n.Interface, fabric(n)), strings.TrimSpace(state), or(n.Model, or(n.Device, "?"))}, isEmpty), "  ")
		hang(n.NUMA, leaf{or(n.Address, ""), text, virtualFunctions(f, n)})
	}

	var b strings.Builder
	for n, l := range s.wrap(strings.Join(slices.DeleteFunc([]string{productName(f.Product), or(f.CPU.Model, "")}, isEmpty), ", "), s.Width) {
		if n == 0 && l == "" {
			l = "machine"
		}
		fmt.Fprintln(&b, s.bold(l))
	}
	type branch struct {
		title  string
		leaves []leaf
	}
	var branches []branch
	for _, n := range f.NUMA {
		branches = append(branches, branch{nodeTitle(n), on[n.ID]})
	}
	if len(nodeless) > 0 {
		branches = append(branches, branch{"no node: the firmware does not say where these are", nodeless})
	}
	for i, br := range branches {
		mark, bar := branchMarks(i == len(branches)-1)
		for n, l := range s.wrap(br.title, s.Width-3) {
			if n > 0 {
				mark = bar
			}
			fmt.Fprintf(&b, "%s%s\n", mark, s.bold(l))
		}
		slices.SortStableFunc(br.leaves, func(x, y leaf) int { return cmp.Compare(x.address, y.address) })
		for j, l := range br.leaves {
			mark, inner := branchMarks(j == len(br.leaves)-1)
			fmt.Fprintf(&b, "%s%s%s\n", bar, mark, cut(l.text, s.Width-6))
			for k, below := range l.below {
				mark, _ := branchMarks(k == len(l.below)-1)
				fmt.Fprintf(&b, "%s%s%s%s\n", bar, inner, mark, cut(below, s.Width-9))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func isEmpty(s string) bool { return s == "" }

// branchMarks are what stands before a branch, and before what is below it.
func branchMarks(last bool) (mark, bar string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

// cut shortens a text to a line: a card's name may be longer, and the table has it whole.
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
	parts := []string{fmt.Sprintf("node %d: %s", n.ID, cpus), memory(n.MemoryBytes), hugePages(n.HugePages)}
	return strings.Join(slices.DeleteFunc(parts, isEmpty), ", ")
}

// virtualFunctions are a card's, by the driver that holds them.
func virtualFunctions(f world.Facts, n world.NIC) []string {
	count := map[string]int{}
	var drivers []string
	for _, p := range f.PCI {
		if p.PhysFn == nil || n.Address == nil || *p.PhysFn != *n.Address {
			continue
		}
		driver := or(p.Driver, "no driver")
		if count[driver]++; count[driver] == 1 {
			drivers = append(drivers, driver)
		}
	}
	var out []string
	for _, driver := range drivers {
		out = append(out, fmt.Sprintf("%s, %s", Count(count[driver], "virtual function"), driver))
	}
	return out
}
