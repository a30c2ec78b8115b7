package printer

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/world"
)

// FactsDocument returns the document of `detect -o json`.
func FactsDocument(
	raw json.RawMessage,
	f world.Facts,
	degraded []boot.Degraded,
	detectors map[string]any,
	ds hcl.Diagnostics,
) any {
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

	return struct {
		FormatVersion int             `json:"format_version"`
		Facts         any             `json:"facts"`
		Degraded      []boot.Degraded `json:"degraded"`
		Diagnostics   []Diagnostic    `json:"diagnostics"`
	}{1, m, orEmpty(degraded), DiagnosticsJSON(Sorted(ds))}
}

// Count returns a number of things in words.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}

	return fmt.Sprint(n, " ", noun)
}

// textOf returns a fact as text; "" if it is nil.
func textOf[T any](v *T) string { return or(v, "") }

// or returns a fact as text, without control characters of firmware and drivers; unknown if it is nil.
func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}

	return printable(fmt.Sprint(*v))
}

// FactsText writes the output of `detect` for people: the machine in a few lines, its devices by model, and the unknown
// facts with their reasons.
func FactsText(w io.Writer, f world.Facts, s Style) error {
	b := page{Style: s}
	b.writeMachine(f)
	b.writeDevices("accelerators", groupAccelerators(f))
	b.writeDevices("nics", groupNICs(f))
	b.writeList(b.bold("disks"), diskRows(f.BlockDevices))
	b.writeList(b.bold("interfaces"), interfaceRows(f.Interfaces))
	failed, unknown := reasons(f.Unknown)
	b.writeReasons(b.red("could not be read"), failed)
	b.writeReasons(b.bold("unknown"), unknown)

	return b.flush(w)
}

// writeMachine writes one line for each part that a machine has once.
func (b *page) writeMachine(f world.Facts) {
	for _, row := range machineRows(f) {
		first := b.bold(pad(row[0], 7)) + "  "
		indent := strings.Repeat(" ", 9)
		b.writeLines(first, indent, b.wrap(row[1], b.Width-9))
	}
}

// machineRows returns the parts that a machine has once, each with its name.
func machineRows(f world.Facts) (rows [][]string) {
	row := func(name string, parts ...string) {
		if text := joinParts(", ", parts...); text != "" {
			rows = append(rows, []string{name, text})
		}
	}

	row("machine", productName(f.Product), virtualization(f.Virtualization))
	row("bios", textOf(f.BIOS.Vendor), textOf(f.BIOS.Version), textOf(f.BIOS.Date))
	row("system", textOf(f.OS.Name), prefixed("Linux ", f.Kernel.Release))
	row("cpu", or(f.CPU.Model, textOf(f.CPU.Vendor)), processors(f.CPU))
	numa := Count(len(f.NUMA), "NUMA node")
	row("memory", memory(f.Memory.TotalBytes), numa, hugePages(f.Memory.HugePages))
	if f.Runtime.Name != nil {
		driver := prefixed("cgroup driver ", f.Runtime.CgroupDriver)
		row("runtime", *f.Runtime.Name, driver, textOf(f.Runtime.Endpoint))
	}

	return rows
}

func prefixed[T any](prefix string, v *T) string {
	if v == nil {
		return ""
	}

	return prefix + textOf(v)
}

func diskRows(disks []world.BlockDevice) (rows [][]string) {
	for _, d := range disks {
		kind := joinParts(" ", textOf(d.Controller), textOf(d.Type))
		model := joinParts(" ", textOf(d.Vendor), textOf(d.Model))
		rows = append(rows, []string{d.Name, kind, memory(d.SizeBytes), model})
	}

	return rows
}

func interfaceRows(interfaces map[string]world.Interface) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(interfaces)) {
		i := interfaces[name]
		addresses := strings.Join(slices.Concat(i.IPv4, i.IPv6), " ")
		rows = append(rows, []string{name, prefixed("mtu ", i.MTU), addresses})
	}

	return rows
}

func productName(p world.Product) string {
	vendor := textOf(p.Vendor)
	name := textOf(p.Name)
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

// processors returns the numbers of sockets, cores and threads, with kinds of cores and offline CPUs if there are any.
func processors(c world.CPU) string {
	sockets := map[int]bool{}
	kinds := map[string]int{}
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
	parts = append(parts, Count(len(c.Cores), "core")+coreKinds(kinds))
	if c.Logical != nil {
		parts = append(parts, Count(*c.Logical, "thread"))
	}
	if len(c.Offline) > 0 {
		offline := fmt.Sprintf("%d more offline (%s)", len(c.Offline), ranges(c.Offline))
		parts = append(parts, offline)
	}

	return strings.Join(parts, ", ")
}

func coreKinds(kinds map[string]int) string {
	if len(kinds) < 2 {
		return ""
	}

	var parts []string
	for _, kind := range []string{"performance", "efficient", "low-power"} {
		if n := kinds[kind]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", kind))
		}
	}

	return " (" + strings.Join(parts, ", ") + ")"
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

// ranges returns sorted numbers as the kernel writes them: 0-3,8.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		part := fmt.Sprint(list[i])
		if last > i {
			part += fmt.Sprint("-", list[last])
		}
		parts = append(parts, part)
		i = last + 1
	}

	return strings.Join(parts, ",")
}

// minRepeats is how often a fact must be unknown for the same reason to be counted instead of listed.
const minRepeats = 3

// device matches the device in the name of a fact: nics[0000:18:00.0].infiniband[mlx5_0/1].state.
var device = regexp.MustCompile(`\[([^\]]+)\]`)

// withoutDevices returns an unknown fact with * for each device, also in its reason.
func withoutDevices(u world.UnknownFact) world.UnknownFact {
	for _, match := range device.FindAllStringSubmatch(u.Fact, -1) {
		u.Why = strings.ReplaceAll(u.Why, match[1], "*")
	}
	u.Fact = device.ReplaceAllString(u.Fact, "[*]")

	return u
}

// reasons returns rows of unknown facts with their reason: facts with the same reason are in one row. failed are those
// that should have been readable.
func reasons(us []world.UnknownFact) (failed, unknown [][]string) {
	repeats := map[world.UnknownFact]int{}
	for _, u := range us {
		repeats[withoutDevices(u)]++
	}

	facts := map[world.UnknownFact][]string{} // by reason, without the fact
	var order []world.UnknownFact
	for _, u := range us {
		general := withoutDevices(u)
		n := repeats[general]
		if n == 0 {
			continue // counted before
		}
		if n >= minRepeats {
			repeats[general] = 0
			u = general
			u.Fact = fmt.Sprintf("%s (%d times)", u.Fact, n)
		}
		fact := u.Fact
		u.Fact = ""
		if facts[u] == nil {
			order = append(order, u)
		}
		facts[u] = append(facts[u], fact)
	}

	for _, reason := range order {
		names := strings.Join(shortenNames(facts[reason]), ", ")
		row := []string{printable(names), printable(reason.Why)}
		if reason.Degraded {
			failed = append(failed, row)
		} else {
			unknown = append(unknown, row)
		}
	}

	return failed, unknown
}

// shortenNames writes os.id, os.name as os.{id,name}.
func shortenNames(facts []string) (out []string) {
	for len(facts) > 0 {
		object, _, hasObject := strings.Cut(facts[0], ".")
		isPlain := hasObject && !strings.Contains(object, "[")
		n := 1
		for isPlain && n < len(facts) && strings.HasPrefix(facts[n], object+".") {
			n++
		}
		name := facts[0]
		if n > 1 {
			var fields []string
			for _, fact := range facts[:n] {
				fields = append(fields, strings.TrimPrefix(fact, object+"."))
			}
			name = object + ".{" + strings.Join(fields, ",") + "}"
		}
		out = append(out, name)
		facts = facts[n:]
	}

	return out
}

// writeReasons writes facts with their reason below.
func (b *page) writeReasons(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}

	fmt.Fprintf(b, "\n%s\n", title)
	for _, r := range rows {
		b.writeText("  ", r[0])
		b.writeText("      ", r[1])
	}
}

func (b *page) writeList(title string, rows [][]string) {
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n%s\n", title)
		b.writeTable("  ", rows, nil)
	}
}
