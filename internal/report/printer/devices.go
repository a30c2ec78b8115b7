package printer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// group contains devices of the same model.
type group struct {
	title []string // name, ids and driver
	rows  [][]string
}

// addToGroup adds a device to the group with its title, or to a new one.
func addToGroup(groups []group, title, row []string) []group {
	for i := range groups {
		if slices.Equal(groups[i].title, title) {
			groups[i].rows = append(groups[i].rows, row)
			return groups
		}
	}

	return append(groups, group{title, [][]string{row}})
}

func groupAccelerators(f world.Facts) (groups []group) {
	for _, a := range f.Accelerators {
		name := or(a.Name, or(a.Vendor, "unknown")+" "+a.Kind)
		if a.Kind != "gpu" && a.Name != nil {
			name += " (" + a.Kind + ")"
		}
		driver := joinParts(" ", or(a.Driver, "no driver"), textOf(a.Version))
		groups = addToGroup(groups, []string{name, textOf(a.Device), driver}, []string{
			textOf(a.Address),
			onNode(a.NUMA),
			gib(a.MemoryGiB),
			link(a.PCIe),
			virtualFunctionCount(a.SRIOV),
		})
	}

	return groups
}

func groupNICs(f world.Facts) (groups []group) {
	for _, n := range f.NICs {
		name := or(n.Model, or(n.Vendor, "unknown")+" network card")
		title := []string{name, textOf(n.Device), or(n.Driver, "no driver")}
		slow := ""
		if isBelowMax(n.PCIe) {
			slow = link(n.PCIe)
		}
		groups = addToGroup(groups, title, []string{
			textOf(n.Address),
			textOf(n.Interface),
			linkState(n),
			onNode(n.NUMA),
			fabric(n),
			slow,
			virtualFunctionCount(n.SRIOV),
		})
	}

	return groups
}

func linkState(n world.NIC) string {
	speed := ""
	if n.SpeedGbps != nil {
		speed = fmt.Sprintf("%gG", *n.SpeedGbps)
	}

	return joinParts(" ", textOf(n.Link), speed)
}

func onNode(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint("node ", *n)
}

func gib(g *float64) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%g GiB", *g)
}

// link returns a PCIe link as "PCIe 32 GT/s ×16", or "16 of 32" and "×8 of ×16" if it is slower than the device allows.
func link(p world.PCIe) string {
	if p.GTs == nil || p.Width == nil {
		return ""
	}

	speed := fmt.Sprintf("%g", *p.GTs)
	width := fmt.Sprintf("×%d", *p.Width)
	if isLess(p.GTs, p.MaxGTs) {
		speed += fmt.Sprintf(" of %g", *p.MaxGTs)
	}
	if isLess(p.Width, p.MaxWidth) {
		width += fmt.Sprintf(" of ×%d", *p.MaxWidth)
	}

	return "PCIe " + speed + " GT/s " + width
}

func isLess[T int | float64](value, limit *T) bool {
	return value != nil && limit != nil && *value < *limit
}

// isBelowMax reports whether a link is slower than the card allows: a narrow slot, or a bad contact.
func isBelowMax(p world.PCIe) bool {
	return isLess(p.GTs, p.MaxGTs) || isLess(p.Width, p.MaxWidth)
}

func virtualFunctionCount(s world.SRIOV) string {
	if s.TotalVFs == nil {
		return ""
	}

	return fmt.Sprintf("%s of %d VFs", or(s.NumVFs, "?"), *s.TotalVFs)
}

// fabric returns the RDMA ports, with the state of those that differ from the link of the card.
func fabric(n world.NIC) string {
	var parts []string
	isUp := textOf(n.Link) == "up"
	for _, p := range n.InfiniBand {
		text := or(p.Device, "?")
		if len(n.InfiniBand) > 1 {
			text += "/" + or(p.Port, "?")
		}
		if state := or(p.State, "?"); (state == "active") != isUp {
			text += " " + state
		}
		parts = append(parts, text)
	}

	return strings.Join(parts, " ")
}

// writeDevices writes groups of devices: a line with their common properties, and one for each device. The columns are
// those of the whole section.
func (b *page) writeDevices(title string, groups []group) {
	if len(groups) == 0 {
		return
	}

	fmt.Fprintf(b, "\n%s\n", b.bold(title))
	var all [][]string
	for _, g := range groups {
		all = append(all, g.rows...)
	}
	rows := fold(removeEmptyColumns(all), b.Width-4)
	for _, g := range groups {
		b.writeGroupTitle(g)
		for _, lines := range rows[:len(g.rows)] {
			b.writeLines("    ", "    ", lines)
		}
		rows = rows[len(g.rows):]
	}
}

func (b *page) writeGroupTitle(g group) {
	name := g.title[0]
	rest := joinParts(", ", g.title[1:]...)
	if n := len(g.rows); n > 1 {
		name = fmt.Sprintf("%d × %s", n, name)
	}
	lines := b.wrap(name, b.Width-2)
	last := len(lines) - 1
	if columns(lines[last])+2+columns(rest) <= b.Width-2 {
		lines[last] += "  " + b.dim(rest)
	} else {
		lines = append(lines, b.dim(rest))
	}
	b.writeLines("  ", "  ", lines)
}

// removeEmptyColumns returns rows without the columns that are empty in all of them.
func removeEmptyColumns(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for column := range rows[0] {
		isEmpty := !slices.ContainsFunc(rows, func(r []string) bool {
			return r[column] != ""
		})
		for i, r := range rows {
			if !isEmpty {
				out[i] = append(out[i], r[column])
			}
		}
	}

	return out
}
