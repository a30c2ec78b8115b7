package detecthw

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

const kindNIC = "nic"

// deviceReport is a device as one detector reports it.
type deviceReport struct {
	contract.Device
	from *detection
}

// merge overrides the built-in facts of PCI devices by the reports of detectors, field by field. A field on which two
// detectors disagree is left as it is. Devices that are not among the PCI facts remain the detector's own.
func merge(facts *tape.Facts, all []*detection) {
	reports := map[string][]deviceReport{}
	for _, d := range all {
		for _, device := range d.ans.Devices {
			reports[device.Address] = append(reports[device.Address], deviceReport{device, d})
		}
	}

	for _, pci := range facts.PCI {
		if len(reports[pci.Address]) == 0 {
			continue
		}
		device, sources := reconcile(pci.Address, reports[pci.Address])
		apply(facts, pci, device, sources)
	}
}

// reconcile returns the fields of a device on which all detectors agree that report them, and the sources of these
// fields by their names in JSON.
func reconcile(address string, reports []deviceReport) (out contract.Device, sources map[string]string) {
	sources = map[string]string{}
	agreed := reflect.ValueOf(&out).Elem()

	for i := range agreed.NumField() {
		name, _, _ := strings.Cut(agreed.Type().Field(i).Tag.Get("json"), ",")
		field := agreed.Field(i)
		var first *detection

		for _, r := range reports {
			v := reflect.ValueOf(r.Device).Field(i)
			switch {
			case v.Kind() != reflect.Pointer || v.IsNil():
				continue
			case first == nil:
				first = r.from
				field.Set(v)
				sources[name] = strings.TrimSuffix("detector "+first.Name+": "+r.Evidence[name], ": ")
				continue
			case field.Elem().Equal(v.Elem()):
				continue
			}

			disagree(
				first,
				r.from,
				name+" of the device "+address,
				fmt.Sprint(field.Elem()),
				fmt.Sprint(v.Elem()),
				"Neither is taken. Leave one of the two out of the site, or of `detectors` in its stage",
			)
			field.SetZero()
			break
		}
	}

	return out, sources
}

// apply writes a report into the facts of one PCI device, which becomes an accelerator or a NIC depending on its kind.
func apply(facts *tape.Facts, pci tape.PCIDevice, d contract.Device, sources map[string]string) {
	isNIC := d.Kind != nil && *d.Kind == kindNIC
	isAccelerator := d.Kind != nil && !isNIC

	a := find(
		&facts.Accelerators,
		tape.Accelerator{Device: &pci.Device, Driver: pci.Driver, NUMA: pci.NUMA, Address: &pci.Address},
		func(a tape.Accelerator) *string { return a.Address },
		isAccelerator,
	)
	if a != nil {
		o := overriding{facts, fmt.Sprintf("accelerators[%s].", pci.Address), sources}
		if isAccelerator {
			a.Kind = *d.Kind
			o.setEvidence("kind", "kind")
		}
		o.setAccelerator(a, d)
	}

	n := find(
		&facts.NICs,
		tape.NIC{Device: &pci.Device, Driver: pci.Driver, NUMA: pci.NUMA, Address: &pci.Address},
		func(n tape.NIC) *string { return n.Address },
		isNIC,
	)
	if n != nil {
		o := overriding{facts, fmt.Sprintf("nics[%s].", pci.Address), sources}
		o.setNIC(n, d)
	}
}

// find returns the device of a list that has the address of a new one. If there is none, it inserts the new one in the
// order of addresses, devices without one last, or returns nil.
func find[T any](list *[]T, device T, addressOf func(T) *string, mayInsert bool) *T {
	address := *addressOf(device)
	isSame := func(other T) bool {
		a := addressOf(other)
		return a != nil && *a == address
	}
	if i := slices.IndexFunc(*list, isSame); i >= 0 { // of a card with several ports the first one
		return &(*list)[i]
	}
	if !mayInsert {
		return nil
	}

	at := slices.IndexFunc(*list, func(other T) bool {
		a := addressOf(other)
		return a == nil || *a > address
	})
	if at < 0 {
		at = len(*list)
	}
	*list = slices.Insert(*list, at, device)

	return &(*list)[at]
}

type overriding struct {
	facts   *tape.Facts
	prefix  string            // of the names of its facts
	sources map[string]string // of the fields of the report
}

func (o overriding) setAccelerator(a *tape.Accelerator, d contract.Device) {
	if d.Name != nil {
		a.Evidence = new(o.sources["name"])
	}
	if d.MemoryBytes != nil {
		gib := math.Round(float64(*d.MemoryBytes)/(1<<30)*100) / 100
		a.MemoryGiB = &gib
		o.setEvidence("memory_gib", "memory_bytes")
	}
	override(o, "name", &a.Name, d.Name)
	override(o, "vendor", &a.Vendor, d.Vendor)
	override(o, "model", &a.Model, d.Model)
	override(o, "driver", &a.Driver, d.Driver)
	override(o, "numa", &a.NUMA, d.NUMA)
	override(o, "sriov.total_vfs", &a.SRIOV.TotalVFs, d.SRIOVTotalVFs)
	override(o, "sriov.num_vfs", &a.SRIOV.NumVFs, d.SRIOVNumVFs)
}

func (o overriding) setNIC(n *tape.NIC, d contract.Device) {
	override(o, "interface", &n.Interface, d.Interface)
	override(o, "link", &n.Link, d.Link)
	override(o, "speed_gbps", &n.SpeedGbps, d.SpeedGbps)
	override(o, "vendor", &n.Vendor, d.Vendor)
	override(o, "model", &n.Model, d.Model)
	override(o, "driver", &n.Driver, d.Driver)
	override(o, "numa", &n.NUMA, d.NUMA)
	override(o, "sriov.total_vfs", &n.SRIOV.TotalVFs, d.SRIOVTotalVFs)
	override(o, "sriov.num_vfs", &n.SRIOV.NumVFs, d.SRIOVNumVFs)
}

// override sets a fact that the detector reports.
func override[T any](o overriding, fact string, place **T, reported *T) {
	if reported != nil {
		*place = reported
		o.setEvidence(fact, strings.ReplaceAll(fact, ".", "_"))
	}
}

// setEvidence records the source of a fact, by the name of the reported field. The fact may have been unknown.
func (o overriding) setEvidence(fact, reported string) {
	name := o.prefix + fact
	if o.facts.Evidence == nil {
		o.facts.Evidence = map[string]string{}
	}

	o.facts.Evidence[name] = o.sources[reported]
	o.facts.Unknown = slices.DeleteFunc(
		o.facts.Unknown,
		func(u tape.UnknownFact) bool {
			return u.Fact == name
		},
	)
}
