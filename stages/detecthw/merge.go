package detecthw

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

const kindNIC = "nic"

// claim is one field of one device as one detector reports it.
type claim struct {
	field    string // as in the facts: "sriov.total_vfs"
	text     string // the value
	evidence string // where the detector has read it
	from     *detection
	device   *world.DetectorDevice
}

// merge overrides the built-in facts of PCI devices by the reports of detectors, field by field. A field on which two
// detectors disagree is left as it is. Devices that are not among the PCI facts remain the detector's own.
func merge(facts *world.Facts, all []*detection) {
	claims := map[string][]claim{}
	for _, d := range all {
		for i := range d.ans.Devices {
			device := &d.ans.Devices[i]
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

		if out[i].text != c.text && !disputed[c.field] {
			disputed[c.field] = true
			disagree(
				out[i].from,
				c.from,
				c.field+" of the device "+address,
				out[i].text,
				c.text,
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

	if i := slices.IndexFunc(claims, func(c claim) bool {
		return c.field == "kind"
	}); i >= 0 {
		isNIC := claims[i].text == kindNIC

		switch {
		case isNIC && nic < 0:
			n := world.NIC{
				Device:  &pci.Device,
				Driver:  pci.Driver,
				NUMA:    pci.NUMA,
				Address: &pci.Address,
			}
			facts.NICs, nic = insert(
				facts.NICs,
				n,
				pci.Address,
				func(n world.NIC) *string {
					return n.Address
				},
			)
		case !isNIC && accelerator < 0:
			a := world.Accelerator{
				Device:  &pci.Device,
				Driver:  pci.Driver,
				NUMA:    pci.NUMA,
				Address: &pci.Address,
			}
			facts.Accelerators, accelerator = insert(facts.Accelerators, a, pci.Address,
				func(a world.Accelerator) *string {
					return a.Address
				})
		}
	}

	for _, c := range claims {
		if accelerator >= 0 && c.setAccelerator(&facts.Accelerators[accelerator]) {
			c.setEvidence(facts, "accelerators")
		}
		if nic >= 0 && c.setNIC(&facts.NICs[nic]) {
			c.setEvidence(facts, "nics")
		}
	}
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
	name := fmt.Sprintf("%s[%s].%s", list, c.device.Address, c.field)
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

// setAccelerator sets the field of an accelerator; false if accelerators do not have it.
func (c claim) setAccelerator(a *world.Accelerator) bool {
	d := c.device

	switch c.field {
	case "kind":
		if c.text != kindNIC {
			a.Kind = c.text
		}
	case "name":
		source := c.source()
		a.Name = d.Name
		a.Evidence = &source
	case "vendor":
		a.Vendor = d.Vendor
	case "model":
		a.Model = d.Model
	case "driver":
		a.Driver = d.Driver
	case "memory_gib":
		a.MemoryGiB = memoryGiB(d)
	case "numa":
		a.NUMA = d.NUMA
	case "sriov.total_vfs":
		a.SRIOV.TotalVFs = d.SRIOVTotalVFs
	case "sriov.num_vfs":
		a.SRIOV.NumVFs = d.SRIOVNumVFs
	default:
		return false
	}

	return true
}

// setNIC sets the field of a NIC; false if NICs do not have it.
func (c claim) setNIC(n *world.NIC) bool {
	d := c.device

	switch c.field {
	case "vendor":
		n.Vendor = d.Vendor
	case "model":
		n.Model = d.Model
	case "driver":
		n.Driver = d.Driver
	case "interface":
		n.Interface = d.Interface
	case "link":
		n.Link = d.Link
	case "speed_gbps":
		n.SpeedGbps = d.SpeedGbps
	case "numa":
		n.NUMA = d.NUMA
	case "sriov.total_vfs":
		n.SRIOV.TotalVFs = d.SRIOVTotalVFs
	case "sriov.num_vfs":
		n.SRIOV.NumVFs = d.SRIOVNumVFs
	default:
		return false
	}

	return true
}

// claimsOf returns the fields that a detector reports of a device.
func claimsOf(from *detection, d *world.DetectorDevice) []claim {
	l := claimList{from: from, device: d}
	add(&l, "kind", "kind", d.Kind)
	add(&l, "name", "name", d.Name)
	add(&l, "vendor", "vendor", d.Vendor)
	add(&l, "model", "model", d.Model)
	add(&l, "driver", "driver", d.Driver)
	add(&l, "interface", "interface", d.Interface)
	add(&l, "link", "link", d.Link)
	add(&l, "memory_gib", "memory_bytes", memoryGiB(d))
	add(&l, "numa", "numa", d.NUMA)
	add(&l, "speed_gbps", "speed_gbps", d.SpeedGbps)
	add(&l, "sriov.total_vfs", "sriov_total_vfs", d.SRIOVTotalVFs)
	add(&l, "sriov.num_vfs", "sriov_num_vfs", d.SRIOVNumVFs)

	return l.claims
}

type claimList struct {
	from   *detection
	device *world.DetectorDevice
	claims []claim
}

// add adds a claim for a field that the detector reports. The report calls it by another name than the facts do.
func add[T any](l *claimList, field, reported string, v *T) {
	if v == nil {
		return
	}

	l.claims = append(l.claims, claim{
		field:    field,
		text:     fmt.Sprint(*v),
		evidence: l.device.Evidence[reported],
		from:     l.from,
		device:   l.device,
	})
}

// memoryGiB returns the memory in GiB, rounded to two digits.
func memoryGiB(d *world.DetectorDevice) *float64 {
	if d.MemoryBytes == nil {
		return nil
	}

	gib := math.Round(float64(*d.MemoryBytes)/(1<<30)*100) / 100

	return &gib
}
