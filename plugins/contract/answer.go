package contract

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// CheckAnswer says in what an answer to a request with the given devices breaks the description, the limits, or the syntax of
// what it carries. The paths of its problems are those of its JSON. An answer with any is refused whole: what one part of it is worth, nobody knows.
func (d Description) CheckAnswer(a Answer, asked []PCIDevice) Problems {
	var c checker
	c.count("problems", len(a.Problems), MaxNotes)
	for i, p := range a.Problems {
		if c.isFull() {
			return c.problems
		}
		at := element("problems", i)
		c.text(at+".summary", p.Summary)
		c.text(at+".detail", p.Detail)
		if _, err := ParsePath(p.Path); err != nil || !printable(p.Path) || len(p.Path) > MaxText {
			c.add(at+".path", "no path of an attribute", "For instance firmware.minimum, ports[1].speed, limits[\"gpu\"].")
		}
		if p.Summary == "" {
			c.add(at+".summary", "empty", "Say what is wrong.")
		}
	}
	if len(a.Problems) > 0 {
		return c.problems
	}
	c.devices(a.Devices)
	if !d.MayTellOfOthers() {
		c.own(a.Devices, asked)
	}
	c.free("attributes", a.Attributes)
	c.facts(d.Facts, a.Facts)
	c.labels(d.LabelDomains, a.Labels)
	c.count("warnings", len(a.Warnings), MaxNotes)
	for i, w := range a.Warnings {
		if c.isFull() {
			return c.problems
		}
		c.text(element("warnings", i), w)
	}
	return c.problems
}

// MayTellOfOthers tells whether a description asks to tell of PCI devices that its pci_ids do not name. The site decides.
func (d Description) MayTellOfOthers() bool { return d.Needs.AnyPCIDevice || d.Wants.AnyPCIDevice }

// Foreign returns the addresses in an answer of PCI devices that were not asked about.
func Foreign(told []Device, asked []PCIDevice) []string {
	isAsked := map[string]bool{"": true} // a device without an address overrules nothing
	for _, d := range asked {
		isAsked[d.Address] = true
	}

	var out []string
	for _, d := range told {
		if !isAsked[d.Address] {
			out = append(out, d.Address)
		}
	}

	return out
}

// own refuses devices that were not asked about.
func (c *checker) own(told []Device, asked []PCIDevice) {
	foreign := Foreign(told, asked)
	for i, d := range told {
		if !c.isFull() && isPCIAddress(d.Address) && slices.Contains(foreign, d.Address) {
			c.add(element("devices", i)+".address", d.Address+" is none of the devices that it was asked about",
				"match.pci_ids does not name it. Tell of the devices of the request; for others describe wants.any_pci_device.")
		}
	}
}

// Kinds are what a device can be.
func Kinds() []string { return []string{"gpu", "npu", "fpga", "dpu", "nic"} }

func (c *checker) devices(list []Device) {
	c.count("devices", len(list), MaxDevices)
	seen := map[string]bool{}
	for i, d := range list {
		if c.isFull() {
			return
		}
		at := element("devices", i)
		if d.Address != "" {
			if !isPCIAddress(d.Address) {
				c.add(at+".address", fmt.Sprintf("%q is no PCI address", d.Address), "For instance 0000:17:00.0; empty for a device that has none.")
			}
			if seen[d.Address] {
				c.add(at+".address", fmt.Sprintf("%s is there twice", d.Address), "One entry a device.")
			}
			seen[d.Address] = true
		}
		c.known(at+".name", d.Name)
		c.known(at+".model", d.Model)
		c.known(at+".driver", d.Driver)
		c.known(at+".interface", d.Interface)
		if d.Kind != nil && !slices.Contains(Kinds(), *d.Kind) {
			c.add(at+".kind", fmt.Sprintf("%q is no kind of device", *d.Kind), "One of %s.", strings.Join(Kinds(), ", "))
		}
		if d.Vendor != nil && !isName(*d.Vendor) {
			c.add(at+".vendor", fmt.Sprintf("%q is no vendor", *d.Vendor), "Lower-case letters, digits and dashes.")
		}
		if d.Link != nil && *d.Link != "up" && *d.Link != "down" {
			c.add(at+".link", fmt.Sprintf("%q is no state of a link", *d.Link), "up or down.")
		}
		if d.SpeedGbps != nil && !(*d.SpeedGbps > 0 && *d.SpeedGbps < 1e6) {
			c.add(at+".speed_gbps", fmt.Sprintf("%v is no speed", *d.SpeedGbps), "In Gbit/s; left out while the link is down.")
		}
		if d.MemoryBytes != nil && (*d.MemoryBytes == 0 || *d.MemoryBytes > 1<<53) {
			c.add(at+".memory_bytes", fmt.Sprintf("%d is no size of a memory", *d.MemoryBytes), "In bytes; left out when it is not known.")
		}
		c.small(at+".numa", d.NUMA)
		c.small(at+".sriov_total_vfs", d.SRIOVTotalVFs)
		c.small(at+".sriov_num_vfs", d.SRIOVNumVFs)
		c.free(at+".attributes", d.Attributes)
		c.evidence(at+".evidence", d)
	}
}

func (c *checker) known(at string, s *string) {
	switch {
	case s == nil:
	case *s == "":
		c.add(at, "empty", "Leave out what is not known.")
	default:
		c.text(at, *s)
	}
}

func (c *checker) small(at string, n *int) {
	if n != nil && (*n < 0 || *n > math.MaxUint16) {
		c.add(at, fmt.Sprintf("%d cannot be", *n), "From 0 to %d; left out when it is not known.", math.MaxUint16)
	}
}

// fields returns the names that evidence may speak of, beside attributes.NAME.
func fields() []string {
	return []string{"name", "kind", "vendor", "model", "driver", "memory_bytes", "numa", "interface", "speed_gbps", "link", "sriov_total_vfs", "sriov_num_vfs"}
}

func (c *checker) evidence(at string, d Device) {
	c.count(at, len(d.Evidence), MaxEntries+len(fields()))
	for _, k := range slices.Sorted(maps.Keys(d.Evidence)) {
		if c.isFull() {
			return
		}
		name, isAttribute := strings.CutPrefix(k, "attributes.")
		_, there := d.Attributes[name]
		if isAttribute && !there || !isAttribute && !slices.Contains(fields(), k) {
			c.add(key(at, k), "evidence of nothing", "It names a field of the device, or attributes.NAME with an attribute that is there.")
		}
		c.text(key(at, k), d.Evidence[k])
	}
}

// free checks a map without a schema.
func (c *checker) free(at string, m map[string]string) {
	c.count(at, len(m), MaxEntries)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if c.isFull() {
			return
		}
		if !isFree(k) {
			c.add(key(at, k), "no name of an attribute", "Letters, digits and . _ / -, at most %d.", MaxName)
		}
		c.text(key(at, k), m[k])
	}
}

func (c *checker) facts(declared []Attribute, facts []Fact) {
	c.count("facts", len(facts), MaxEntries)
	names := make([]string, len(declared))
	for i, a := range declared {
		names[i] = a.Name
	}
	seen := map[string]bool{}
	for i, f := range facts {
		if c.isFull() {
			return
		}
		at := element("facts", i)
		n := slices.Index(names, f.Name)
		switch {
		case n < 0:
			c.add(at+".name", fmt.Sprintf("%q is not described", f.Name), "Declare it in the description. %s", nearest(f.Name, names))
		case seen[f.Name]:
			c.add(at+".name", fmt.Sprintf("%q is there twice", f.Name), "")
		default:
			c.value(f.Name, declared[n], f.Value, false)
		}
		seen[f.Name] = true
		c.text(at+".evidence", f.Evidence)
		c.text(at+".unknown", f.Unknown)
		if f.Unknown != "" && f.Value != nil {
			c.add(at+".unknown", "known and unknown", "Why a fact is unknown is said of a null only.")
		}
	}
}

func (c *checker) labels(domains []string, labels []Label) {
	c.count("labels", len(labels), MaxLabels)
	seen := map[string]bool{}
	for i, l := range labels {
		if c.isFull() {
			return
		}
		at := element("labels", i)
		domain, name, ok := strings.Cut(l.Key, "/")
		switch {
		case !ok || !isDomain(domain) || !isLabel(name) || name == "":
			c.add(at+".key", fmt.Sprintf("%q is no key of a vendor's label", l.Key), "DOMAIN/NAME, the name of at most 63 letters, digits and . _ -, letters or digits at its ends.")
		case !slices.ContainsFunc(domains, func(d string) bool { return within(domain, d) }):
			c.add(at+".key", fmt.Sprintf("%s is not a described domain", domain), "The description names %s.", strings.Join(append([]string{}, domains...), ", "))
		case seen[l.Key]:
			c.add(at+".key", fmt.Sprintf("%s is there twice", l.Key), "")
		}
		seen[l.Key] = true
		if !isLabel(l.Value) {
			c.add(at+".value", fmt.Sprintf("%q is no value of a label", l.Value), "At most 63 letters, digits and . _ -, letters or digits at its ends. sdk.LabelValue makes one.")
		}
		c.text(at+".evidence", l.Evidence)
	}
}
