package contract

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// CheckAnswer returns where an answer breaks the description, the limits or the syntax of its texts. The requested
// devices are those of the request. The paths of the problems are those of the answer's JSON. Reject a whole answer
// that has any problem.
func (d Description) CheckAnswer(a Answer, requested []PCIDevice) Problems {
	var c checker
	c.count("problems", len(a.Problems), MaxNotes)
	for i, p := range a.Problems {
		c.problem(element("problems", i), p)
	}
	if len(a.Problems) > 0 { // then the rest of the answer has no meaning
		return c.problems
	}

	c.devices(a.Devices)
	if !d.Needs.AnyPCIDevice && !d.Wants.AnyPCIDevice {
		c.foreignDevices(a.Devices, requested)
	}
	c.freeMap("attributes", a.Attributes)
	c.facts(d.Facts, a.Facts)
	c.labels(d.LabelDomains, a.Labels)
	c.textList("warnings", a.Warnings, MaxNotes)

	return c.problems
}

func (c *checker) problem(at string, p Problem) {
	c.text(at+".summary", p.Summary)
	c.text(at+".detail", p.Detail)
	_, err := ParsePath(p.Path)
	if err != nil || !isPrintable(p.Path) || len(p.Path) > MaxText {
		c.add(
			at+".path",
			"not the path of an attribute",
			`Examples: firmware.minimum, ports[1].speed, limits["gpu"].`,
		)
	}
	if p.Summary == "" {
		c.add(at+".summary", "empty", "Describe the problem.")
	}
}

// Foreign returns the addresses in an answer of PCI devices that were not requested.
func Foreign(devices []Device, requested []PCIDevice) (addresses []string) {
	isRequested := indexAddresses(requested)
	for _, d := range devices {
		if !isRequested[d.Address] {
			addresses = append(addresses, d.Address)
		}
	}

	return addresses
}

// indexAddresses returns the addresses of requested devices. A device without an address overrules nothing.
func indexAddresses(requested []PCIDevice) map[string]bool {
	index := map[string]bool{"": true}
	for _, d := range requested {
		index[d.Address] = true
	}

	return index
}

func (c *checker) foreignDevices(devices []Device, requested []PCIDevice) {
	isRequested := indexAddresses(requested)
	for i, d := range devices {
		if pciAddress().MatchString(d.Address) && !isRequested[d.Address] {
			c.add(
				element("devices", i)+".address",
				d.Address+" was not in the request",
				"match.pci_ids does not match it. "+
					"Report devices of the request only; to report others, describe wants.any_pci_device.",
			)
		}
	}
}

// Kinds returns the valid kinds of devices.
func Kinds() []string {
	return []string{"gpu", "npu", "fpga", "dpu", "nic"}
}

func (c *checker) devices(list []Device) {
	c.count("devices", len(list), MaxDevices)
	seen := map[string]bool{"": true}
	for i, d := range list {
		at := element("devices", i)
		switch {
		case d.Address == "":
		case !pciAddress().MatchString(d.Address):
			c.invalid(
				at+".address",
				"PCI address",
				d.Address,
				"For example 0000:17:00.0; empty for a device without one.",
			)
		case seen[d.Address]:
			c.add(at+".address", "duplicate address "+d.Address, "Return one entry for each device.")
		}
		seen[d.Address] = true
		c.device(at, d)
	}
}

func (c *checker) device(at string, d Device) {
	c.optionalText(at+".name", d.Name)
	c.optionalText(at+".model", d.Model)
	c.optionalName(at+".driver", "name of a driver", d.Driver, MaxName, "/")
	c.optionalName(at+".interface", "name of a network interface", d.Interface, maxInterface, "/: ")
	if d.Kind != nil && !slices.Contains(Kinds(), *d.Kind) {
		valid := strings.Join(Kinds(), ", ")
		c.invalid(at+".kind", "kind of device", *d.Kind, "Valid kinds: "+valid+".")
	}
	if d.Vendor != nil && !matches(detectorName, *d.Vendor) {
		c.invalid(at+".vendor", "vendor", *d.Vendor, "Lower-case letters, digits and dashes.")
	}
	if d.Link != nil && *d.Link != "up" && *d.Link != "down" {
		c.invalid(at+".link", "link state", *d.Link, "Valid states: up, down.")
	}
	if d.SpeedGbps != nil && !(*d.SpeedGbps > 0 && *d.SpeedGbps < 1e6) {
		c.invalid(at+".speed_gbps", "speed", *d.SpeedGbps, "In Gbit/s. Leave it out while the link is down.")
	}
	if d.MemoryBytes != nil && (*d.MemoryBytes == 0 || *d.MemoryBytes > 1<<53) {
		c.invalid(
			at+".memory_bytes",
			"memory size",
			*d.MemoryBytes,
			"In bytes. Leave it out if it is unknown.",
		)
	}
	c.optionalCount(at+".numa", d.NUMA)
	c.optionalCount(at+".sriov_total_vfs", d.SRIOVTotalVFs)
	c.optionalCount(at+".sriov_num_vfs", d.SRIOVNumVFs)
	if d.SRIOVNumVFs != nil && d.SRIOVTotalVFs != nil && *d.SRIOVNumVFs > *d.SRIOVTotalVFs {
		detail := fmt.Sprintf("At most sriov_total_vfs, %d.", *d.SRIOVTotalVFs)
		c.invalid(at+".sriov_num_vfs", "number", *d.SRIOVNumVFs, detail)
	}
	c.freeMap(at+".attributes", d.Attributes)
	c.evidence(at+".evidence", d)
}

func (c *checker) optionalText(at string, s *string) {
	switch {
	case s == nil:
	case *s == "":
		c.add(at, "empty", "Leave out what is unknown.")
	default:
		c.text(at, *s)
	}
}

// maxInterface is the length of the longest name of an interface in bytes, as IFNAMSIZ of Linux has it.
const maxInterface = 15

// optionalName checks a name that is also a folder of /sys.
func (c *checker) optionalName(at, what string, s *string, most int, forbidden string) {
	c.optionalText(at, s)
	if s != nil && (len(*s) > most || *s == "." || *s == ".." || strings.ContainsAny(*s, forbidden)) {
		c.invalid(at, what, *s, fmt.Sprintf("As /sys has it: at most %d bytes, none of %q.", most, forbidden))
	}
}

func (c *checker) optionalCount(at string, n *int) {
	if n != nil && (*n < 0 || *n > math.MaxUint16) {
		c.invalid(
			at,
			"number",
			*n,
			fmt.Sprintf("From 0 to %d. Leave it out if it is unknown.", math.MaxUint16),
		)
	}
}

// evidenceFields returns the fields of a device that evidence can be for, in addition to attributes.NAME.
func evidenceFields() []string {
	return []string{"name", "kind", "vendor", "model", "driver", "memory_bytes", "numa",
		"interface", "speed_gbps", "link", "sriov_total_vfs", "sriov_num_vfs"}
}

func (c *checker) evidence(at string, d Device) {
	c.count(at, len(d.Evidence), MaxEntries+len(evidenceFields()))
	for _, k := range slices.Sorted(maps.Keys(d.Evidence)) {
		isKnown := slices.Contains(evidenceFields(), k)
		if name, isAttribute := strings.CutPrefix(k, "attributes."); isAttribute {
			_, isKnown = d.Attributes[name]
		}
		if !isKnown {
			c.add(
				key(at, k),
				"evidence for an unknown field",
				"Valid keys: a field of the device, or attributes.NAME of an attribute that the device has.",
			)
		}
		c.text(key(at, k), d.Evidence[k])
	}
}

// freeMap checks a map without a schema.
func (c *checker) freeMap(at string, m map[string]string) {
	c.count(at, len(m), MaxEntries)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		c.form(key(at, k), "attribute name", k, matches(freeKey, k), "Letters, digits and . _ / -.")
		c.text(key(at, k), m[k])
	}
}

func (c *checker) facts(declared []Attribute, facts []Fact) {
	c.count("facts", len(facts), MaxEntries)
	var names []string
	for _, a := range declared {
		names = append(names, a.Name)
	}

	seen := map[string]bool{}
	for i, f := range facts {
		at := element("facts", i)
		n := slices.Index(names, f.Name)
		switch {
		case n < 0:
			c.add(
				at+".name",
				fmt.Sprintf("%q is not in the description", f.Name),
				nearest(f.Name, names),
			)
		case seen[f.Name]:
			c.add(at+".name", fmt.Sprintf("duplicate fact %q", f.Name), "")
		default:
			c.value(f.Name, declared[n], f.Value, false)
		}
		seen[f.Name] = true

		c.text(at+".evidence", f.Evidence)
		c.text(at+".unknown", f.Unknown)
		if f.Unknown != "" && f.Value != nil {
			c.add(at+".unknown", "a value and a reason why there is none", "Return one of the two.")
		}
		if f.Unknown == "" && f.Value == nil {
			const detail = "Return a value, which false, 0 and \"\" are, or say in unknown why it could not be read."
			c.add(at, fmt.Sprintf("fact %q has no value and no reason", f.Name), detail)
		}
	}
}

func (c *checker) labels(domains []string, labels []Label) {
	c.count("labels", len(labels), MaxLabels)
	seen := map[string]bool{}
	for i, l := range labels {
		const form = "Letters, digits and . _ -, with letters or digits at the ends."
		at := element("labels", i)
		domain, name, _ := strings.Cut(l.Key, "/")
		isDescribed := slices.ContainsFunc(
			domains,
			func(d string) bool { return isBelowDomain(domain, d) },
		)
		switch {
		case !isDomain(domain) || !matches(labelText, name):
			c.form(at+".key", "label key", l.Key, false, "DOMAIN/NAME. The name: "+form)
		case !isDescribed:
			c.add(
				at+".key",
				domain+" is not in the description",
				"Described domains: "+strings.Join(domains, ", ")+".",
			)
		case seen[l.Key]:
			c.add(at+".key", "duplicate label "+l.Key, "")
		}
		seen[l.Key] = true

		isValue := l.Value == "" || matches(labelText, l.Value)
		c.form(at+".value", "label value", l.Value, isValue, form+" The SDK's Recommend makes one of any text.")
		c.text(at+".evidence", l.Evidence)
	}
}
