package detecthw

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// claim is one field of one device, as one detector has it.
type claim struct {
	field       string // as facts name it
	text        string // the value, to compare and to tell
	from        *found
	where       string // the detector's evidence
	accelerator func(*world.Accelerator)
	nic         func(*world.NIC)
}

// merge overrules what the built-in detection says of a device by what detectors say of the same PCI address, field by
// field: detector over driver over table. Where two detectors differ, neither is taken.
func merge(f *world.Facts, all []*found) {
	var addresses []string
	claims := map[string][]claim{}
	for _, d := range all {
		for _, dev := range d.ans.Devices {
			if dev.Address == "" || !slices.ContainsFunc(f.PCI, func(p world.PCIDevice) bool { return p.Address == dev.Address }) {
				continue // it stays the detector's own
			}
			if claims[dev.Address] == nil {
				addresses = append(addresses, dev.Address)
			}
			claims[dev.Address] = append(claims[dev.Address], claimsOf(d, dev)...)
		}
	}
	slices.Sort(addresses)
	for _, a := range addresses {
		apply(f, a, settled(a, claims[a]))
	}
}

// settled are the claims on which nobody disagrees, the first of each field.
func settled(address string, all []claim) (out []claim) {
	byField := map[string]int{}
	disputed := map[string]bool{}
	for _, c := range all {
		at, ok := byField[c.field]
		if !ok {
			byField[c.field] = len(out)
			out = append(out, c)
			continue
		}
		if out[at].text != c.text && !disputed[c.field] {
			disputed[c.field] = true
			disagree(out[at].from, c.from, c.field+" of the device "+address, out[at].text, c.text, "Neither is taken. Leave one of the two out of the site, or of `detectors` in its stage")
		}
	}
	return slices.DeleteFunc(out, func(c claim) bool { return disputed[c.field] })
}

func apply(f *world.Facts, address string, claims []claim) {
	accelerator := slices.IndexFunc(f.Accelerators, func(a world.Accelerator) bool { return a.Address != nil && *a.Address == address })
	nic := slices.IndexFunc(f.NICs, func(n world.NIC) bool { return n.Address != nil && *n.Address == address })
	for _, c := range claims {
		if c.field != "kind" {
			continue
		}
		pci := f.PCI[slices.IndexFunc(f.PCI, func(p world.PCIDevice) bool { return p.Address == address })]
		switch {
		case c.text == "nic" && nic < 0:
			n := world.NIC{Device: &pci.Device, Driver: pci.Driver, NUMA: pci.NUMA, Address: &pci.Address}
			f.NICs, nic = placed(f.NICs, n, address, func(n world.NIC) *string { return n.Address })
		case c.text != "nic" && accelerator < 0:
			a := world.Accelerator{Device: &pci.Device, Driver: pci.Driver, NUMA: pci.NUMA, Address: &pci.Address}
			f.Accelerators, accelerator = placed(f.Accelerators, a, address, func(a world.Accelerator) *string { return a.Address })
		}
	}
	for _, c := range claims {
		if accelerator >= 0 && c.accelerator != nil {
			c.accelerator(&f.Accelerators[accelerator])
			told(f, "accelerators", address, c)
		}
		if nic >= 0 && c.nic != nil {
			c.nic(&f.NICs[nic])
			told(f, "nics", address, c)
		}
	}
}

// placed inserts a device where its address belongs; devices without one come last.
func placed[T any](list []T, x T, address string, of func(T) *string) ([]T, int) {
	i := slices.IndexFunc(list, func(o T) bool { a := of(o); return a == nil || *a > address })
	if i < 0 {
		i = len(list)
	}
	return slices.Insert(list, i, x), i
}

// told writes down where a field comes from now, and that it is no longer unknown.
func told(f *world.Facts, list, address string, c claim) {
	name := fmt.Sprintf("%s[%s].%s", list, address, c.field)
	if f.Evidence == nil {
		f.Evidence = map[string]string{}
	}
	f.Evidence[name] = Evidence(c.from.Name, c.where)
	f.Unknown = slices.DeleteFunc(f.Unknown, func(u world.UnknownFact) bool { return u.Fact == name })
}

// Evidence is what the facts say of where a detector's word comes from.
func Evidence(detector, where string) string {
	return strings.TrimSuffix("detector "+detector+": "+where, ": ")
}

// claimsOf are the fields that a detector sets for a device.
func claimsOf(from *found, d world.DetectorDevice) (out []claim) {
	add := func(field, evidence, text string, a func(*world.Accelerator), n func(*world.NIC)) {
		out = append(out, claim{field: field, text: text, from: from, where: d.Evidence[evidence], accelerator: a, nic: n})
	}
	words := func(field string, s *string, a func(*world.Accelerator), n func(*world.NIC)) {
		if s != nil {
			add(field, field, *s, a, n)
		}
	}
	words("kind", d.Kind, func(a *world.Accelerator) {
		if *d.Kind != "nic" {
			a.Kind = *d.Kind
		}
	}, nil)
	words("name", d.Name, func(a *world.Accelerator) {
		where := Evidence(from.Name, d.Evidence["name"])
		a.Name, a.Evidence = d.Name, &where
	}, nil)
	words("vendor", d.Vendor, func(a *world.Accelerator) { a.Vendor = d.Vendor }, func(n *world.NIC) { n.Vendor = d.Vendor })
	words("model", d.Model, func(a *world.Accelerator) { a.Model = d.Model }, func(n *world.NIC) { n.Model = d.Model })
	words("driver", d.Driver, func(a *world.Accelerator) { a.Driver = d.Driver }, func(n *world.NIC) { n.Driver = d.Driver })
	words("interface", d.Interface, nil, func(n *world.NIC) { n.Interface = d.Interface })
	words("link", d.Link, nil, func(n *world.NIC) { n.Link = d.Link })
	if d.MemoryBytes != nil {
		gib := math.Round(float64(*d.MemoryBytes)/(1<<30)*100) / 100
		add("memory_gib", "memory_bytes", strconv.FormatFloat(gib, 'f', -1, 64), func(a *world.Accelerator) { a.MemoryGiB = &gib }, nil)
	}
	if d.NUMA != nil {
		add("numa", "numa", strconv.Itoa(*d.NUMA), func(a *world.Accelerator) { a.NUMA = d.NUMA }, func(n *world.NIC) { n.NUMA = d.NUMA })
	}
	if d.SpeedGbps != nil {
		add("speed_gbps", "speed_gbps", strconv.FormatFloat(*d.SpeedGbps, 'f', -1, 64), nil, func(n *world.NIC) { n.SpeedGbps = d.SpeedGbps })
	}
	if v := d.SRIOVTotalVFs; v != nil {
		add("sriov.total_vfs", "sriov_total_vfs", strconv.Itoa(*v), func(a *world.Accelerator) { a.SRIOV.TotalVFs = v }, func(n *world.NIC) { n.SRIOV.TotalVFs = v })
	}
	if v := d.SRIOVNumVFs; v != nil {
		add("sriov.num_vfs", "sriov_num_vfs", strconv.Itoa(*v), func(a *world.Accelerator) { a.SRIOV.NumVFs = v }, func(n *world.NIC) { n.SRIOV.NumVFs = v })
	}
	return out
}
