package present

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// group is devices of one name: what they share is told once.
type group struct {
	title []string // name, ids and driver
	rows  [][]string
}

// grouped puts rows under the titles that they share, in the order of the first of each.
func grouped(groups []group, title []string, row []string) []group {
	for i := range groups {
		if slices.Equal(groups[i].title, title) {
			groups[i].rows = append(groups[i].rows, row)
			return groups
		}
	}
	return append(groups, group{title, [][]string{row}})
}

func acceleratorGroups(f world.Facts) []group {
	var groups []group
	for _, a := range f.Accelerators {
		driver := or(a.Driver, "no driver")
		if a.Version != nil {
			driver += " " + *a.Version
		}
		name := or(a.Name, or(a.Vendor, "unknown")+" "+a.Kind)
		if a.Kind != "gpu" && a.Name != nil {
			name += " (" + a.Kind + ")"
		}
		title := []string{name, or(a.Device, ""), driver}
		groups = grouped(groups, title, []string{or(a.Address, ""), onNode(a.NUMA), gib(a.MemoryGiB), link(a.PCIe), vfs(a.SRIOV)})
	}
	return groups
}

func nicGroups(f world.Facts) []group {
	var groups []group
	for _, n := range f.NICs {
		title := []string{or(n.Model, or(n.Vendor, "unknown")+" network card"), or(n.Device, ""), or(n.Driver, "no driver")}
		state := or(n.Link, "")
		if n.SpeedGbps != nil {
			state += fmt.Sprintf(" %gG", *n.SpeedGbps)
		}
		groups = grouped(groups, title, []string{or(n.Address, ""), or(n.Interface, ""), state, onNode(n.NUMA), fabric(n), lessThanMax(n.PCIe), vfs(n.SRIOV)})
	}
	return groups
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

// link is "PCIe 32 GT/s ×16", and "16 of 32", "×8 of ×16" where it is less than the device could do.
func link(p world.PCIe) string {
	if p.GTs == nil || p.Width == nil {
		return ""
	}
	speed, width := fmt.Sprintf("%g", *p.GTs), fmt.Sprintf("×%d", *p.Width)
	if p.MaxGTs != nil && *p.MaxGTs > *p.GTs {
		speed += fmt.Sprintf(" of %g", *p.MaxGTs)
	}
	if p.MaxWidth != nil && *p.MaxWidth > *p.Width {
		width += fmt.Sprintf(" of ×%d", *p.MaxWidth)
	}
	return "PCIe " + speed + " GT/s " + width
}

// lessThanMax is the link of a card that could do more: a narrow slot, or a bad contact. The others' are no news.
func lessThanMax(p world.PCIe) string {
	if p.MaxWidth != nil && p.Width != nil && *p.MaxWidth > *p.Width || p.MaxGTs != nil && p.GTs != nil && *p.MaxGTs > *p.GTs {
		return link(p)
	}
	return ""
}

func vfs(s world.SRIOV) string {
	if s.TotalVFs == nil {
		return ""
	}
	return fmt.Sprintf("%s of %d VFs", or(s.NumVFs, "?"), *s.TotalVFs)
}

// fabric names the RDMA ports, with the state of those that are not active while the card's link is up, or otherwise odd.
func fabric(n world.NIC) string {
	var parts []string
	for _, p := range n.InfiniBand {
		text := or(p.Device, "?")
		if len(n.InfiniBand) > 1 {
			text += fmt.Sprintf("/%s", or(p.Port, "?"))
		}
		if state := or(p.State, "?"); (state == "active") != (or(n.Link, "") == "up") {
			text += " " + state
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// devices prints groups: a line of what all share, and one for each device, with the columns of the whole section.
func devices(b *strings.Builder, title string, groups []group, s Style) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", s.bold(title))
	var all [][]string
	for _, g := range groups {
		all = append(all, g.rows...)
	}
	lines := folded(withoutEmpty(all), s.Width-4)
	perRow := len(lines) / len(all)
	if len(lines)%len(all) != 0 { // some rows have a second line and some have none
		perRow = 0
	}
	for _, g := range groups {
		name := g.title[0]
		if n := len(g.rows); n > 1 {
			name = fmt.Sprintf("%d × %s", n, name)
		}
		rest := strings.Join(slices.DeleteFunc(slices.Clone(g.title[1:]), func(t string) bool { return t == "" }), ", ")
		if columns(name)+2+columns(rest) <= s.Width-2 {
			fmt.Fprintf(b, "  %s  %s\n", name, s.dim(rest))
		} else {
			for _, l := range s.wrap(name, s.Width-2) {
				fmt.Fprintf(b, "  %s\n", l)
			}
			fmt.Fprintf(b, "  %s\n", s.dim(rest))
		}
		for range g.rows {
			for n := 0; len(lines) > 0 && (perRow > 0 && n < perRow || perRow == 0 && (n == 0 || strings.HasPrefix(lines[0], "    "))); n++ {
				fmt.Fprintf(b, "    %s\n", lines[0])
				lines = lines[1:]
			}
		}
	}
}

// withoutEmpty takes the columns away that no row fills.
func withoutEmpty(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for column := range rows[0] {
		if slices.ContainsFunc(rows, func(r []string) bool { return r[column] != "" }) {
			for i, r := range rows {
				out[i] = append(out[i], r[column])
			}
		}
	}
	return out
}
