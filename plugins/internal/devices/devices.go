// Package devices fills devices for the shipped detectors: name, attributes and SR-IOV, each with its evidence.
// Vendors' detectors do not need it. It reads only below the root that it is given.
package devices

import (
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// Folder returns the folder of a PCI function in sysfs.
func Folder(p sdk.PCIDevice) string {
	return "/sys/bus/pci/devices/" + p.Address
}

// Virtual returns the physical function of a virtual one, and whether it is one.
func Virtual(r sdk.Root, p sdk.PCIDevice) (physical string, isVirtual bool) {
	physical, err := r.Link(Folder(p) + "/physfn")

	return physical, err == nil
}

// New returns a device with the fields that the request has.
func New(p sdk.PCIDevice, kind, vendor string) sdk.Device {
	d := sdk.Device{
		Address:    p.Address,
		Kind:       new(kind),
		NUMA:       p.NUMA,
		Attributes: map[string]string{},
		Evidence:   map[string]string{},
	}
	if vendor != "" {
		d.Vendor = new(vendor)
	}
	if p.Driver != "" {
		d.Driver = new(p.Driver)
	}

	return d
}

// SetName sets the name, and the model without the vendor, which some names begin with. An empty name changes
// nothing.
func SetName(d *sdk.Device, name, vendor, evidence string) {
	if name == "" {
		return
	}
	d.Name = new(name)
	d.Model = new(strings.TrimPrefix(name, vendor+" "))
	d.Evidence["name"] = evidence
	d.Evidence["model"] = evidence
}

// SetMemory sets the memory in bytes. 0 means unknown and changes nothing.
func SetMemory(d *sdk.Device, bytes uint64, evidence string) {
	if bytes == 0 {
		return
	}
	d.MemoryBytes = new(bytes)
	d.Evidence["memory_bytes"] = evidence
}

// SetAttribute sets an attribute. An empty value means unknown and changes nothing.
func SetAttribute(d *sdk.Device, name, value, evidence string) {
	if value == "" {
		return
	}
	d.Attributes[name] = value
	d.Evidence["attributes."+name] = evidence
}

// ReadAttribute sets an attribute to the text of a file, if there is any, and returns it.
func ReadAttribute(d *sdk.Device, r sdk.Root, name, file string) string {
	text, err := r.Text(file)
	if err != nil {
		return ""
	}
	SetAttribute(d, name, text, file)

	return text
}

// ReadSRIOV sets the numbers of virtual functions. A device that cannot have any has no such files, which is not
// zero.
func ReadSRIOV(d *sdk.Device, r sdk.Root, dir string) {
	total, err := r.Int(dir + "/sriov_totalvfs")
	if err != nil || total < 0 {
		return
	}
	d.SRIOVTotalVFs = new(int(total))
	d.Evidence["sriov_total_vfs"] = dir + "/sriov_totalvfs"

	if now, err := r.Int(dir + "/sriov_numvfs"); err == nil && now >= 0 {
		d.SRIOVNumVFs = new(int(now))
		d.Evidence["sriov_num_vfs"] = dir + "/sriov_numvfs"
	}
}

// SortedKeys returns the keys of a map. The result is not nil: an empty list is a known value.
func SortedKeys[V any](m map[string]V) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m))...)
}

// LookUp returns what follows an id and a space in a line of a table, "" for an id that the table does not have.
func LookUp(table, id string) string {
	for line := range strings.Lines(table) {
		if text, isFound := strings.CutPrefix(line, id+" "); isFound {
			return strings.TrimSuffix(text, "\n")
		}
	}

	return ""
}
