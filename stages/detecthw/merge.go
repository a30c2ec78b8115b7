package detecthw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

const kindNIC = "nic"

// claim is one field of one device as one detector reports it.
type claim struct {
	field    string // as in the facts: "sriov.total_vfs"
	value    any    // as in JSON
	evidence string // where the detector has read it
	from     *detection
	address  string
}

// text returns the value for people.
func (c claim) text() string {
	return fmt.Sprint(c.value)
}

// isNIC reports whether the detector reports that the device is a network card.
func (c claim) isNIC() bool {
	return c.field == "kind" && c.value == kindNIC
}

// merge overrides the built-in facts of PCI devices by the reports of detectors, field by field. A field on which two
// detectors disagree is left as it is. Devices that are not among the PCI facts remain the detector's own.
func merge(facts *world.Facts, all []*detection) {
	claims := map[string][]claim{}
	for _, d := range all {
		for _, device := range d.ans.Devices {
			claims[device.Address] = append(claims[device.Address], claimsOf(d, device)...)
		}
	}

	for _, pci := range facts.PCI {
		apply(facts, pci, removeDisputed(pci.Address, claims[pci.Address]))
	}
}

// removeDisputed returns the first claim for each field, without fields on which detectors disagree.
func removeDisputed(address string, all []claim) (out []claim) {
	disputed := map[string]bool{}

	for _, c := range all {
		i := slices.IndexFunc(out, func(o claim) bool {
			return o.field == c.field
		})
		if i < 0 {
			out = append(out, c)
			continue
		}

		if out[i].value != c.value && !disputed[c.field] {
			disputed[c.field] = true
			disagree(
				out[i].from,
				c.from,
				c.field+" of the device "+address,
				out[i].text(),
				c.text(),
				"Neither is taken. Leave one of the two out of the site, or of `detectors` in its stage",
			)
		}
	}

	return slices.DeleteFunc(out, func(c claim) bool {
		return disputed[c.field]
	})
}

// apply writes claims into the facts of one PCI device, which becomes an accelerator or a NIC depending on its kind.
func apply(facts *world.Facts, pci world.PCIDevice, claims []claim) {
	isThis := func(address *string) bool {
		return address != nil && *address == pci.Address
	}
	accelerator := slices.IndexFunc(
		facts.Accelerators,
		func(a world.Accelerator) bool {
			return isThis(a.Address)
		},
	)
	nic := slices.IndexFunc(facts.NICs, func(n world.NIC) bool {
		return isThis(n.Address)
	})

	for _, c := range claims {
		switch {
		case c.field != "kind":
		case c.isNIC() && nic < 0:
			n := world.NIC{
				Device:  new(pci.Device),
				Driver:  copyOf(pci.Driver),
				NUMA:    copyOf(pci.NUMA),
				Address: new(pci.Address),
			}
			facts.NICs, nic = insert(
				facts.NICs,
				n,
				pci.Address,
				func(n world.NIC) *string { return n.Address },
			)
		case !c.isNIC() && accelerator < 0:
			a := world.Accelerator{
				Device:  new(pci.Device),
				Driver:  copyOf(pci.Driver),
				NUMA:    copyOf(pci.NUMA),
				Address: new(pci.Address),
			}
			facts.Accelerators, accelerator = insert(facts.Accelerators, a, pci.Address,
				func(a world.Accelerator) *string { return a.Address })
		}
	}

	for _, c := range claims {
		if accelerator >= 0 {
			c.setAccelerator(facts, &facts.Accelerators[accelerator])
		}
		if nic >= 0 && c.set(&facts.NICs[nic]) {
			c.setEvidence(facts, "nics")
		}
	}
}

// copyOf returns a pointer of its own, because a claim changes the value behind the pointer of a device.
func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}

	return new(*p)
}

// insert inserts a device in the order of addresses; devices without one are last.
func insert[T any](
	list []T,
	x T,
	address string,
	addressOf func(T) *string,
) ([]T, int) {
	i := slices.IndexFunc(
		list,
		func(o T) bool { a := addressOf(o); return a == nil || *a > address },
	)
	if i < 0 {
		i = len(list)
	}

	return slices.Insert(list, i, x), i
}

// setEvidence records the source of a field that was unknown.
func (c claim) setEvidence(facts *world.Facts, list string) {
	name := fmt.Sprintf("%s[%s].%s", list, c.address, c.field)
	if facts.Evidence == nil {
		facts.Evidence = map[string]string{}
	}

	facts.Evidence[name] = c.source()
	facts.Unknown = slices.DeleteFunc(
		facts.Unknown,
		func(u world.UnknownFact) bool {
			return u.Fact == name
		},
	)
}

// source names the detector, and its own source if it reports one.
func (c claim) source() string {
	return strings.TrimSuffix("detector "+c.from.Name+": "+c.evidence, ": ")
}

// setAccelerator sets the field of an accelerator, if accelerators have it. Its kind is never that of a NIC.
func (c claim) setAccelerator(facts *world.Facts, a *world.Accelerator) {
	if !c.isNIC() && !c.set(a) {
		return
	}
	if c.field == "name" {
		a.Evidence = new(c.source())
	}
	c.setEvidence(facts, "accelerators")
}

// set sets the field of an accelerator or a NIC by its name in JSON; false if it does not have the field.
func (c claim) set(device any) bool {
	v := c.value
	for _, name := range slices.Backward(strings.Split(c.field, ".")) {
		v = map[string]any{name: v}
	}
	b, _ := json.Marshal(v) // it was JSON before
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()

	return d.Decode(device) == nil
}

// claimsOf returns the fields that a detector reports of a device.
func claimsOf(from *detection, d contract.Device) (claims []claim) {
	var values map[string]any
	b, _ := json.Marshal(d) // it was JSON before
	_ = json.Unmarshal(b, &values)

	for _, f := range []struct{ reported, field string }{
		{"kind", "kind"},
		{"name", "name"},
		{"vendor", "vendor"},
		{"model", "model"},
		{"driver", "driver"},
		{"interface", "interface"},
		{"link", "link"},
		{"memory_bytes", "memory_gib"},
		{"numa", "numa"},
		{"speed_gbps", "speed_gbps"},
		{"sriov_total_vfs", "sriov.total_vfs"},
		{"sriov_num_vfs", "sriov.num_vfs"},
	} {
		v, isReported := values[f.reported]
		if !isReported {
			continue
		}
		if bytes, isMemory := v.(float64); isMemory && f.reported == "memory_bytes" {
			v = math.Round(bytes/(1<<30)*100) / 100
		}
		claims = append(claims, claim{f.field, v, d.Evidence[f.reported], from, d.Address})
	}

	return claims
}
