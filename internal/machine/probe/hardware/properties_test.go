package hardware

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/prelet/prelet/internal/model/tape"
)

// mayBeNull lists the facts that are null without a reason: for them null is a value, which their comments describe.
// Every other fact that is null has a reason.
var mayBeNull = strings.Fields(`
	accelerators[].driver accelerators[].driver_version accelerators[].sriov.num_vfs
	accelerators[].sriov.total_vfs cpu.cores[].kind default_route.ipv6.gateway default_route.ipv6.interface
	default_route.ipv6.source interfaces[].mac nics[].driver nics[].sriov.num_vfs nics[].sriov.total_vfs
	pci[].driver pci[].parent pci[].physfn
`)

// mayLack lists the facts whose source may be missing in a machine. Every other source exists.
var mayLack = []string{
	"cpu.logical",      // a CPU that cannot be switched off has no file "online"
	"memory.gpu_bytes", // a kernel without NUMA has no nodes, so that no GPU's memory is one
	"nics[].interface", // a snapshot has links into /sys/class/net without their targets
}

// mostOf is the largest number that a fact of this name has on a machine of these years, which another unit exceeds.
var mostOf = map[string]float64{
	"gts":           64,
	"max_gts":       64,
	"width":         32,
	"max_width":     32,
	"speed_gbps":    3200,
	"rate_gbps":     3200,
	"memory_gib":    1 << 12,
	"total_bytes":   1 << 50,
	"memory_bytes":  1 << 50,
	"size_bytes":    1 << 50,
	"mtu":           1 << 16,
	"prefix_length": 128,
	"logical":       maxCPU,
}

// place is a part of the facts. Its names are those that Facts.Unknown and Facts.Evidence may have for it:
// nics[0000:18:00.0].link, nics[0000:18:00.0 ib0].link and nics[].link, which is the last.
type place struct {
	names  []string
	device map[string]any // the element of a list that it is in
}

func (p place) extend(endings ...string) place {
	longer := place{device: p.device}
	for _, ending := range endings {
		for _, name := range p.names {
			longer.names = append(longer.names, strings.TrimPrefix(name+ending, "."))
		}
	}

	return longer
}

func (p place) general() string { return p.names[len(p.names)-1] }

func (p place) field() string { return p.general()[strings.LastIndexByte(p.general(), '.')+1:] }

// find returns the text of the place, or of the smallest part that it is in. The address of a card is that of its PCI
// device.
func (p place) find(texts map[string]string) string {
	names := p.names
	isCard := p.general() == "accelerators[]."+p.field() || p.general() == "nics[]."+p.field()
	if isCard && slices.Contains([]string{"address", "device", "driver", "numa"}, p.field()) {
		names = append(slices.Clone(names), fmt.Sprintf("pci[%v].%s", p.device["address"], p.field()), "pci[]."+p.field())
	}
	for len(names) > 0 {
		var outer []string
		for _, name := range names {
			if texts[name] != "" {
				return texts[name]
			}
			end := strings.LastIndexByte(name, '.')
			if strings.HasSuffix(name, "]") {
				end = strings.LastIndexByte(name, '[')
			}
			if end > 0 {
				outer = append(outer, name[:end])
			}
		}
		names = outer
	}

	return ""
}

// namesOf returns the names of an element of a list.
func namesOf(element map[string]any, i int) []string {
	bracketed := func(format string, values ...any) string { return "[" + fmt.Sprintf(format, values...) + "]" }
	cpus, _ := element["cpus"].([]any)
	switch {
	case element["address"] != nil && element["interface"] != nil:
		both := bracketed("%v %v", element["address"], element["interface"])
		return []string{bracketed("%v", element["address"]), both, "[]"}
	case element["address"] != nil:
		return []string{bracketed("%v", element["address"]), "[]"}
	case element["name"] != nil:
		return []string{bracketed("%v", element["name"]), "[]"}
	case element["port"] != nil:
		port := bracketed("%v/%v", element["device"], element["port"])
		return []string{port, bracketed("%v", element["device"]), "[]"}
	case element["id"] != nil:
		return []string{bracketed("%v", element["id"]), "[]"}
	case len(cpus) > 0:
		return []string{bracketed("%v", cpus[0]), "[]"}
	}

	return []string{bracketed("%d", i), "[]"}
}

// hasNames reports whether an object is a map by names of devices, and not of facts.
func hasNames(name string) bool {
	return name == "interfaces" || name == "guids" || strings.HasPrefix(name, "hugepages")
}

// walkFacts calls visit for each part of the facts, the outer first.
func walkFacts(v any, at place, visit func(place, any)) {
	visit(at, v)
	switch v := v.(type) {
	case map[string]any:
		isMap := hasNames(at.field())
		for key, inner := range v {
			if isMap {
				walkFacts(inner, at.extend("["+key+"]", "[]"), visit)
			} else {
				walkFacts(inner, at.extend("."+key), visit)
			}
		}
	case []any:
		for i, inner := range v {
			element, _ := inner.(map[string]any)
			next := at.extend(namesOf(element, i)...)
			if next.device == nil {
				next.device = element
			}
			walkFacts(inner, next, visit)
		}
	}
}

// checkProperties checks what is true of the facts of each machine, also of a fact that is new: its value was read from
// a file of the machine, or is null for a reason.
func checkProperties(t *testing.T, tree Tree, facts tape.Facts) {
	t.Helper()
	var all map[string]any
	must(t, json.Unmarshal(encode(t, facts), &all))
	delete(all, "unknown")
	delete(all, "evidence")
	checkCollections(t, reflect.ValueOf(facts), "")

	reasons := map[string]string{}
	for _, u := range facts.Unknown {
		if u.Why == "" || reasons[u.Fact] == u.Why {
			t.Errorf("%s: got the reason %q empty or twice, want one", u.Fact, u.Why)
		}
		reasons[u.Fact] = u.Why
	}

	in := files{tree, map[string][]string{}}
	isNull := map[string]bool{} // by the names of all places; also true of lists, maps and objects, which may be a part
	walkFacts(all, place{names: []string{""}}, func(at place, v any) {
		switch v.(type) {
		case map[string]any, []any:
			v = nil
		case nil:
			if at.find(reasons) == "" && !slices.Contains(mayBeNull, at.general()) {
				t.Errorf("%s: got null, want a reason or a value", at.names[0])
			}
		default:
			checkSource(t, in, at, facts.Evidence)
			checkBounds(t, at, v)
		}
		for _, name := range at.names {
			isNull[name] = isNull[name] || v == nil
		}
	})

	for fact, why := range reasons {
		list, _, isElement := cutLast(fact, "[")
		_, exists := isNull[fact]
		if isLost := isElement && !exists && isNull[list]; !isNull[fact] && !isLost {
			t.Errorf("%s: got the reason %q, want it only for what is null or not in a list", fact, why)
		}
	}
	for fact, source := range facts.Evidence {
		if _, exists := isNull[fact]; !exists {
			t.Errorf("%s: got evidence %q, want it only for a fact", fact, source)
		}
	}
}

// checkCollections checks that no list or map is null: sites count and iterate over all of them.
func checkCollections(t *testing.T, v reflect.Value, at string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if option == "" {
				checkCollections(t, v.Field(i), at+"."+name)
			}
		}
	case reflect.Slice, reflect.Map:
		if v.IsNil() {
			t.Errorf("%s: got null for a collection, want an empty one", at)
		}
		for i := 0; v.Kind() == reflect.Slice && i < v.Len(); i++ {
			checkCollections(t, v.Index(i), at+"[]")
		}
	}
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}

	return text[:i], text[i+len(sep):], true
}

// checkSource checks that a value was read from a file of the machine, or is of a table of prelet.
func checkSource(t *testing.T, in files, at place, evidence map[string]string) {
	t.Helper()
	source := at.find(evidence)
	switch at.general() {
	case "accelerators[].evidence":
		return
	case "accelerators[].kind", "accelerators[].name", "accelerators[].model":
		source = fmt.Sprint(at.device["evidence"])
	}

	name := at.device["address"]
	if name == nil {
		name = at.device["name"]
	}
	device := strings.NewReplacer("{address}", fmt.Sprint(name), "{interface}", fmt.Sprint(at.device["interface"]))
	file := device.Replace(source)
	isTable := tables.MatchString(source) || slices.Contains(mayLack, at.general())
	if source == "" || !isTable && !in.exist(file) {
		t.Errorf("%s: got the evidence %q, want a file of the machine", at.names[0], file)
	}
}

var tables = regexp.MustCompile(`^(prelet's own table|pci\.ids |the table of NVIDIA's driver |PCI class )`)

// files are those of a machine. A folder is listed once.
type files struct {
	Tree
	listed map[string][]string
}

// exist reports whether a file exists that matches an absolute path with * and {a,b}.
func (f files) exist(pattern string) bool {
	if !strings.HasPrefix(pattern, "/") {
		return false
	}

	found := []string{"."}
	for element := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		alternatives := strings.NewReplacer(`\*`, ".*", `\{`, "(", `\}`, ")", ",", "|")
		isMatch := regexp.MustCompile("^" + alternatives.Replace(regexp.QuoteMeta(element)) + "$").MatchString
		var next []string
		for _, folder := range found {
			if _, isListed := f.listed[folder]; !isListed {
				f.listed[folder], _ = f.ReadDir(folder)
			}
			for _, name := range f.listed[folder] {
				if isMatch(name) {
					next = append(next, path.Join(folder, name))
				}
			}
		}
		found = next
	}

	return len(found) > 0
}

// checkBounds checks a number by the name of its fact, which has the unit, and the form of a text.
func checkBounds(t *testing.T, at place, v any) {
	t.Helper()
	switch v := v.(type) {
	case float64:
		if most, isLimited := mostOf[at.field()]; v < 0 || isLimited && v > most {
			t.Errorf("%s: got %v, want 0 to %v", at.names[0], v, most)
		}
	case string:
		isInvalid := func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }
		if v == "" || strings.TrimSpace(v) != v || strings.ContainsFunc(v, isInvalid) {
			t.Errorf("%s: got %q, want a text without space around it", at.names[0], v)
		}
	}
}

// checkAgreement checks that the facts of one machine agree with each other.
func checkAgreement(t *testing.T, facts tape.Facts) {
	t.Helper()
	checkProcessors(t, facts)
	checkBus(t, facts.PCI)
	for _, a := range facts.Accelerators {
		checkCard(t, facts.PCI, *a.Address, []any{*a.Device, value(a.Driver), value(a.NUMA)}, a.SRIOV, a.PCIe)
	}
	for _, n := range facts.NICs {
		checkCard(t, facts.PCI, *n.Address, []any{*n.Device, value(n.Driver), value(n.NUMA)}, n.SRIOV, n.PCIe)
		if n.SpeedGbps != nil && value(n.Link) != "up" {
			t.Errorf("nics[%s]: got %v Gbit/s of a link that is %v, want null", *n.Address, *n.SpeedGbps, value(n.Link))
		}
		for _, p := range n.InfiniBand {
			if facts.GUIDs[*p.Device] == "" && why(facts, "guids["+*p.Device+"]") == "" {
				t.Errorf("guids: got none of %s, want it or a reason", *p.Device)
			}
		}
	}

	for name, face := range facts.Interfaces {
		if len(face.Addresses) != len(face.IPv4)+len(face.IPv6) {
			t.Errorf("interfaces[%s]: got %v, %v and %v, want the same addresses", name, face.IPv4, face.IPv6, face.Addresses)
		}
	}
	for _, r := range []tape.Route{facts.DefaultRoute.IPv4, facts.DefaultRoute.IPv6} {
		if r.Interface != nil && facts.Interfaces[*r.Interface].Addresses == nil {
			t.Errorf("default_route: got the interface %s, want one with an address", *r.Interface)
		}
	}
}

// checkProcessors checks that cores, offline CPUs and NUMA nodes have each CPU once, and the nodes all memory.
func checkProcessors(t *testing.T, facts tape.Facts) {
	t.Helper()
	online := allCPUs(facts.CPU)
	if unique := slices.Compact(slices.Clone(online)); len(unique) != *facts.CPU.Logical || len(online) != len(unique) {
		t.Errorf("cpu.cores: got the CPUs %v, want %d, each once", online, *facts.CPU.Logical)
	}
	for _, n := range facts.CPU.Offline {
		if contains(online, n) {
			t.Errorf("cpu.offline: got CPU %d, which is in cpu.cores, too", n)
		}
	}

	var cpus []int
	bytes := int64(0)
	for _, n := range facts.NUMA {
		cpus = append(cpus, n.CPUs...)
		if n.MemoryBytes != nil {
			bytes += *n.MemoryBytes
		}
	}
	slices.Sort(cpus)
	total := *facts.Memory.TotalBytes
	isTotal := max(bytes-total, total-bytes) <= total/25 // the kernel keeps some of each node
	isUnknown := slices.ContainsFunc(facts.Unknown, func(u tape.UnknownFact) bool {
		isSummed := strings.HasSuffix(u.Fact, "].cpus") || strings.HasSuffix(u.Fact, "].memory_bytes")

		return strings.HasPrefix(u.Fact, "numa[") && isSummed
	})
	if !isUnknown && !(isTotal && slices.Equal(cpus, online)) {
		t.Errorf("numa: got %d bytes and the CPUs %v, want %d bytes and %v", bytes, cpus, total, online)
	}
}

// checkBus checks that functions are sorted, and that their bridges and physical functions exist.
func checkBus(t *testing.T, functions []tape.PCIDevice) {
	t.Helper()
	for i, f := range functions {
		if i > 0 && compareAddresses(functions[i-1].Address, f.Address) >= 0 {
			t.Errorf("pci: got %s after %s, want them sorted", f.Address, functions[i-1].Address)
		}
		for _, other := range []*string{f.Parent, f.PhysFn} {
			isOther := func(g tape.PCIDevice) bool { return g.Address == *other && *other != f.Address }
			if other != nil && !slices.ContainsFunc(functions, isOther) {
				t.Errorf("pci[%s]: got the bridge or physical function %s, want another device", f.Address, *other)
			}
		}
	}
}

// checkCard checks that an accelerator or network card is as its PCI function, and has no more than it can have.
func checkCard(t *testing.T, bus []tape.PCIDevice, address string, got []any, s tape.SRIOV, link tape.PCIe) {
	t.Helper()
	i := slices.IndexFunc(bus, func(f tape.PCIDevice) bool { return f.Address == address })
	f := bus[max(i, 0)]
	if want := []any{f.Device, value(f.Driver), value(f.NUMA)}; i < 0 || f.PhysFn != nil || !slices.Equal(got, want) {
		t.Errorf("%s: got a card with %v, want those of its PCI function: %v", address, got, want)
	}
	if s.NumVFs != nil && *s.NumVFs > *s.TotalVFs {
		t.Errorf("%s: got %d of %d virtual functions, want no more", address, *s.NumVFs, *s.TotalVFs)
	}
	isFast := link.GTs != nil && link.MaxGTs != nil && *link.GTs > *link.MaxGTs
	isWide := link.Width != nil && link.MaxWidth != nil && *link.Width > *link.MaxWidth
	if isFast || isWide {
		t.Errorf("%s: got a link of %s GT/s ×%s, want at most %s ×%s", address,
			number(link.GTs), number(link.Width), number(link.MaxGTs), number(link.MaxWidth))
	}
}
