package present

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/world"
)

// FactsDocument is what `detect -o json` prints.
func FactsDocument(raw json.RawMessage, f world.Facts, degraded []boot.Degraded, detectors map[string]any, ds hcl.Diagnostics) any {
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
	if len(detectors) > 0 {
		m["detectors"] = detectors
	}
	if degraded == nil {
		degraded = []boot.Degraded{}
	}
	return struct {
		FormatVersion int             `json:"format_version"`
		Facts         any             `json:"facts"`
		Degraded      []boot.Degraded `json:"degraded"`
		Diagnostics   []Diagnostic    `json:"diagnostics"`
	}{1, m, degraded, DiagnosticsJSON(Sorted(ds))}
}

// Count is a number of things in words.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// or is a fact as text. What firmware and drivers say is shown, and does not act on the terminal.
func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}
	return printable(fmt.Sprint(*v))
}

// FactsText is what `detect` prints for people: the machine in a few lines, its devices by what they are, and what is not
// known. What nobody knows is left out above and has its reason below.
func FactsText(w io.Writer, f world.Facts, s Style) error {
	var b strings.Builder
	head(&b, f, s)
	devices(&b, "accelerators", acceleratorGroups(f), s)
	devices(&b, "nics", nicGroups(f), s)
	list(&b, s.bold("disks"), diskRows(f.BlockDevices), s)
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(f.Interfaces)) {
		i := f.Interfaces[name]
		mtu := ""
		if i.MTU != nil {
			mtu = fmt.Sprint("mtu ", *i.MTU)
		}
		rows = append(rows, []string{name, mtu, strings.Join(append(slices.Clone(i.IPv4), i.IPv6...), " ")})
	}
	list(&b, s.bold("interfaces"), rows, s)
	failed, unknown := reasons(f.Unknown)
	reasonList(&b, s.red("could not be read"), failed, s)
	reasonList(&b, s.bold("unknown"), unknown, s)
	_, err := io.WriteString(w, b.String())
	return err
}

// head is one line of the machine for each thing that it has once.
func head(b *strings.Builder, f world.Facts, s Style) {
	row := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
		if len(parts) == 0 {
			return
		}
		for n, l := range s.wrap(strings.Join(parts, ", "), s.Width-9) {
			if n > 0 {
				name = ""
			}
			fmt.Fprintf(b, "%s  %s\n", s.bold(pad(name, 7)), l)
		}
	}
	row("machine", productName(f.Product), virtualization(f.Virtualization))
	kernel := ""
	if f.Kernel.Release != nil {
		kernel = "Linux " + *f.Kernel.Release
	}
	row("bios", or(f.BIOS.Vendor, ""), or(f.BIOS.Version, ""), or(f.BIOS.Date, ""))
	row("system", or(f.OS.Name, ""), kernel)
	row("cpu", append([]string{or(f.CPU.Model, or(f.CPU.Vendor, ""))}, processors(f.CPU)...)...)
	row("memory", memory(f.Memory.TotalBytes), Count(len(f.NUMA), "NUMA node"), hugePages(f.Memory.HugePages))
	if f.Runtime.Name != nil {
		driver := ""
		if f.Runtime.CgroupDriver != nil {
			driver = "cgroup driver " + *f.Runtime.CgroupDriver
		}
		row("runtime", *f.Runtime.Name, driver, or(f.Runtime.Endpoint, ""))
	}
}

func diskRows(disks []world.BlockDevice) [][]string {
	var rows [][]string

	for _, d := range disks {
		kind := strings.TrimSpace(or(d.Controller, "") + " " + or(d.Type, ""))
		model := strings.TrimSpace(or(d.Vendor, "") + " " + or(d.Model, ""))
		rows = append(rows, []string{d.Name, kind, memory(d.SizeBytes), model})
	}

	return rows
}

func productName(p world.Product) string {
	vendor, name := or(p.Vendor, ""), or(p.Name, "")
	if strings.HasPrefix(name, vendor) { // some repeat themselves
		return name
	}
	return strings.TrimSpace(vendor + " " + name)
}

func virtualization(v *string) string {
	switch {
	case v == nil:
		return ""
	case *v == "none":
		return "bare metal"
	}
	return "virtual machine (" + *v + ")"
}

// processors counts sockets, cores and threads, and tells what is unusual of them.
func processors(c world.CPU) []string {
	sockets, kinds := map[int]bool{}, map[string]int{}
	for _, core := range c.Cores {
		if core.Package != nil {
			sockets[*core.Package] = true
		}
		if core.Kind != nil {
			kinds[*core.Kind]++
		}
	}
	var parts []string
	if len(sockets) > 0 {
		parts = append(parts, Count(len(sockets), "socket"))
	}
	cores := Count(len(c.Cores), "core")
	if len(kinds) > 1 {
		var each []string
		for _, kind := range []string{"performance", "efficient", "low-power"} {
			if n := kinds[kind]; n > 0 {
				each = append(each, fmt.Sprint(n, " ", kind))
			}
		}
		cores += " (" + strings.Join(each, ", ") + ")"
	}
	parts = append(parts, cores)
	if c.Logical != nil {
		parts = append(parts, Count(*c.Logical, "thread"))
	}
	if len(c.Offline) > 0 {
		parts = append(parts, fmt.Sprintf("%d more offline (%s)", len(c.Offline), ranges(c.Offline)))
	}
	return parts
}

func memory(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", float64(*bytes)/(1<<30))
}

func hugePages(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			out = append(out, fmt.Sprintf("%d × %s", m[k], k))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "huge pages " + strings.Join(out, " and ")
}

// ranges writes sorted numbers as the kernel does: 0-3,8.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if last == i {
			parts = append(parts, fmt.Sprint(list[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[last]))
		}
		i = last + 1
	}
	return strings.Join(parts, ",")
}

// several is how many facts of one kind that are unknown for one reason are told by a number.
const several = 3

// reasons are the facts that are not known, those of one reason together. The same of several devices is one fact, with *
// for the device. Failed are those that should have been readable.
func reasons(us []world.UnknownFact) (failed, unknown [][]string) {
	type reason struct {
		why      string
		degraded bool
	}
	general := func(u world.UnknownFact) (string, reason) {
		fact, why := "", u.Why
		for rest := u.Fact; ; { // nics[0000:18:00.0].infiniband[mlx5_0/1].state
			before, inside, ok := strings.Cut(rest, "[")
			device, after, closed := strings.Cut(inside, "]")
			if !ok || !closed || device == "" {
				return fact + rest, reason{why, u.Degraded}
			}
			fact += before + "[*]"
			why = strings.ReplaceAll(why, device, "*")
			rest = after
		}
	}
	type kind struct {
		fact string
		why  reason
	}
	count := map[kind]int{}
	for _, u := range us {
		fact, why := general(u)
		count[kind{fact, why}]++
	}
	facts := map[reason][]string{}
	var order []reason
	for _, u := range us {
		fact, why := general(u)
		k := kind{fact, why}
		switch n := count[k]; {
		case n >= several:
			fact = fmt.Sprintf("%s (%d times)", fact, n)
			count[k] = -1
		case n < 0:
			continue
		default:
			fact, why = u.Fact, reason{u.Why, u.Degraded}
		}
		if facts[why] == nil {
			order = append(order, why)
		}
		facts[why] = append(facts[why], fact)
	}
	for _, why := range order {
		row := []string{printable(strings.Join(shortened(facts[why]), ", ")), printable(why.why)}
		if why.degraded {
			failed = append(failed, row)
		} else {
			unknown = append(unknown, row)
		}
	}
	return failed, unknown
}

// shortened writes os.id, os.name as os.{id,name}.
func shortened(facts []string) []string {
	var out []string
	for i := 0; i < len(facts); {
		object, _, ok := strings.Cut(facts[i], ".")
		end := i + 1
		for ok && !strings.Contains(object, "[") && end < len(facts) && strings.HasPrefix(facts[end], object+".") {
			end++
		}
		if end-i == 1 {
			out = append(out, facts[i])
		} else {
			var fields []string
			for _, fact := range facts[i:end] {
				fields = append(fields, strings.TrimPrefix(fact, object+"."))
			}
			out = append(out, object+".{"+strings.Join(fields, ",")+"}")
		}
		i = end
	}
	return out
}

// besideReason is the widest that facts may be to have their reason beside them and not below.
const besideReason = 38

func reasonList(b *strings.Builder, title string, rows [][]string, s Style) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	wide := 0
	for _, r := range rows {
		if w := columns(r[0]); w <= besideReason {
			wide = max(wide, w)
		}
	}
	for _, r := range rows {
		indent, before := "      ", ""
		longest := 0 // a path is not broken
		for _, word := range strings.Fields(r[1]) {
			longest = max(longest, columns(word))
		}
		if columns(r[0]) <= besideReason && wide+4+longest <= s.Width {
			before = pad("  "+r[0], wide+4)
			indent = strings.Repeat(" ", wide+4)
		} else {
			for _, l := range s.wrap(r[0], s.Width-2) {
				fmt.Fprintf(b, "  %s\n", l)
			}
			before = indent
		}
		for _, l := range s.wrap(r[1], s.Width-columns(indent)) {
			fmt.Fprintf(b, "%s%s\n", before, l)
			before = indent
		}
	}
}

func list(b *strings.Builder, title string, rows [][]string, s Style) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, l := range s.table(rows, s.Width-2, nil) {
		fmt.Fprintf(b, "  %s\n", l)
	}
}
