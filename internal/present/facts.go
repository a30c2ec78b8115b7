package present

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/world"
)

// FactsDocument is what `detect -o json` prints.
func FactsDocument(raw json.RawMessage, f world.Facts, degraded []boot.Degraded) any {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		m = map[string]any{}
	}
	gpus := []world.Accelerator{}
	for _, a := range f.Accelerators {
		if a.Kind == "gpu" {
			gpus = append(gpus, a)
		}
	}
	m["gpus"] = gpus
	return struct {
		FormatVersion int             `json:"format_version"`
		Facts         any             `json:"facts"`
		Degraded      []boot.Degraded `json:"degraded"`
	}{1, m, degraded}
}

// Count is a number of things in words.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprint(*v)
}

// FactsText is the table that `detect` prints for people.
func FactsText(w io.Writer, f world.Facts, s Style) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		for n, l := range wrap(fmt.Sprintf(format, args...), s.Width-10) {
			if n > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%s  %s\n", s.bold(pad(name, 8)), l)
		}
	}
	if f.Product.Vendor != nil || f.Product.Name != nil { // a machine without DMI has none, as "unknown" tells
		row("product", "%s %s", or(f.Product.Vendor, "?"), or(f.Product.Name, "?"))
	}
	row("system", "%s, kernel %s, virtualization %s", or(f.OS.Name, "?"), or(f.Kernel.Release, "?"), or(f.Virtualization, "?"))
	row("cpu", "%s: %s threads, %s", or(f.CPU.Model, "?"), or(f.CPU.Logical, "?"), Count(len(f.CPU.Cores), "core"))
	mem := "?"
	if f.Memory.TotalBytes != nil {
		mem = fmt.Sprintf("%.1f GiB", float64(*f.Memory.TotalBytes)/(1<<30))
	}
	row("memory", "%s, %s%s", mem, Count(len(f.NUMA), "NUMA node"), hugePages(f.Memory.HugePages))
	row("runtime", "%s at %s, cgroup driver %s", or(f.Runtime.Name, "none configured"), or(f.Runtime.Endpoint, "?"), or(f.Runtime.CgroupDriver, "?"))
	var rows [][]string
	for _, a := range f.Accelerators {
		rows = append(rows, []string{or(a.Address, "?"), a.Kind, or(a.Name, or(a.Device, "?")), or(a.Device, "?"), "node " + or(a.NUMA, "?"), or(a.Driver, "no driver"), size(a.MemoryGiB)})
	}
	list(&b, "accelerators", rows, s)
	rows = nil
	for _, n := range f.NICs {
		speed := "no speed"
		if n.SpeedGbps != nil {
			speed = fmt.Sprintf("%gG", *n.SpeedGbps)
		}
		vfs := ""
		if n.SRIOV.TotalVFs != nil {
			vfs = fmt.Sprintf("%s of %d VFs", or(n.SRIOV.NumVFs, "?"), *n.SRIOV.TotalVFs)
		}
		rows = append(rows, []string{or(n.Address, "?"), or(n.Interface, "-"), or(n.Model, or(n.Vendor, "?")), or(n.Device, "?"), or(n.Link, "?"), speed, "node " + or(n.NUMA, "?"), or(n.Driver, "no driver"), vfs})
	}
	list(&b, "nics", rows, s)
	rows = nil
	for _, name := range slices.Sorted(maps.Keys(f.Interfaces)) {
		i := f.Interfaces[name]
		rows = append(rows, []string{name, strings.Join(append(slices.Clone(i.IPv4), i.IPv6...), " "), "mtu " + or(i.MTU, "?")})
	}
	list(&b, "interfaces", rows, s)
	list(&b, "unknown", unknown(f.Unknown), s)
	_, err := io.WriteString(w, b.String())
	return err
}

// several is how many facts of one kind that are unknown for one reason are told on one line.
const several = 3

// unknown lists the facts that are unknown, and why. The same of several devices is one row, with * for the device.
func unknown(us []world.UnknownFact) [][]string {
	general := func(u world.UnknownFact) [2]string {
		before, rest, ok := strings.Cut(u.Fact, "[")
		device, after, closed := strings.Cut(rest, "]")
		if !ok || !closed || device == "" {
			return [2]string{u.Fact, u.Why}
		}
		return [2]string{before + "[*]" + after, strings.ReplaceAll(u.Why, device, "*")}
	}
	count := map[[2]string]int{}
	for _, u := range us {
		count[general(u)]++
	}
	var rows [][]string
	for _, u := range us {
		g := general(u)
		switch n := count[g]; {
		case n >= several:
			rows = append(rows, []string{fmt.Sprintf("%s, %d times", g[0], n), g[1]})
			count[g] = -1
		case n >= 0:
			rows = append(rows, []string{u.Fact, u.Why})
		}
	}
	return rows
}

func size(g *float64) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%g GiB", *g)
}

func hugePages(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			out = append(out, fmt.Sprintf("%d×%s", m[k], k))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ", huge pages " + strings.Join(out, " ")
}

func list(b *strings.Builder, title string, rows [][]string, s Style) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", s.bold(title))
	for _, l := range table(rows, s.Width-2, nil) {
		fmt.Fprintf(b, "  %s\n", l)
	}
}
