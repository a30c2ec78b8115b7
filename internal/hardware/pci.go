package hardware

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prelet/prelet/internal/world"
)

const pciFolder = "sys/bus/pci/devices"

// pciAddress is domain:bus:device.function, as numbers, so that domain 10000 comes after 0000. Virtual machines of some
// clouds and Intel's VMD have domains of five to eight digits.
type pciAddress struct{ domain, bus, device, function uint64 }

func parsePCIAddress(s string) (pciAddress, bool) {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) != 4 || len(parts[0]) < 4 || len(parts[0]) > 8 || len(parts[1]) != 2 || len(parts[2]) != 2 || len(parts[3]) != 1 ||
		s != parts[0]+":"+parts[1]+":"+parts[2]+"."+parts[3] {
		return pciAddress{}, false
	}
	var n [4]uint64
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 16, 32)
		if err != nil {
			return pciAddress{}, false
		}
		n[i] = v
	}
	return pciAddress{n[0], n[1], n[2], n[3]}, true
}

func (a pciAddress) compare(b pciAddress) int {
	return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.bus, b.bus), cmp.Compare(a.device, b.device), cmp.Compare(a.function, b.function))
}

// function is a PCI function with what the lists of accelerators and cards need besides.
type function struct {
	world.PCIDevice
	order     pciAddress
	folder    string // sys/bus/pci/devices/ADDRESS
	vendorID  string // 10de
	deviceID  string // 2330
	subsystem string // vendor:device, or empty
}

func (f function) isClass(prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.Class, p) })
}

// readDevices reads the PCI bus, and makes accelerators and network cards of it.
func (d *detection) readDevices() error {
	names, err := d.names(pciFolder)
	if err != nil {
		for _, fact := range []string{"pci", "accelerators", "nics"} {
			d.failed(fact, err) // a machine without PCI has no folder; that is a reason, not a failure
		}
		return nil
	}
	var functions []function
	for _, name := range names {
		if d.ctx.Err() != nil {
			return nil
		}
		order, ok := parsePCIAddress(name)
		if !ok || slices.Contains(d.without, name) {
			continue
		}
		if f, ok := d.pciFunction(name, order); ok {
			functions = append(functions, f)
		}
	}
	slices.SortStableFunc(functions, func(a, b function) int { return a.order.compare(b.order) })

	pci := make([]world.PCIDevice, 0, len(functions))
	accelerators, nics := []world.Accelerator{}, []world.NIC{}
	kfd, nodeless := d.lazyKFD(), 0
	for _, f := range functions {
		if d.ctx.Err() != nil {
			return nil
		}
		pci = append(pci, f.PCIDevice)
		if f.NUMA == nil {
			nodeless++
		}
		kind, isAccelerator := accelerator(f)
		if isNIC := f.isClass("02"); (isAccelerator || isNIC) && f.PhysFn == nil {
			if isAccelerator {
				accelerators = append(accelerators, d.accelerator(f, kind, kfd))
			}
			if isNIC {
				nics = append(nics, d.nics(f)...)
			}
		}
	}
	if nodeless > 0 {
		d.note("pci[].numa", fmt.Sprintf("the firmware gives no NUMA node for %d of %d devices", nodeless, len(pci)))
	}
	d.facts.PCI, d.facts.Accelerators, d.facts.NICs = pci, accelerators, nics
	d.facts.GUIDs = d.guids
	return nil
}

// pciFunction reads one function. Without ids it is nothing anybody could use, so it is left out, and Unknown says so.
func (d *detection) pciFunction(address string, order pciAddress) (function, bool) {
	f := function{order: order, folder: pciFolder + "/" + address}
	f.Address = address
	fact := "pci[" + address + "]"
	switch {
	case d.fromUevent(&f):
		d.sawEach("pci", address, "", pciFolder+"/{address}/uevent")
	case d.fromAttributes(&f, fact):
		d.sawEach("pci", address, "", pciFolder+"/{address}/")
	default:
		return function{}, false
	}
	f.Device = f.vendorID + ":" + f.deviceID
	// A negative node is the kernel's "the firmware did not say", which is all VMs; no file is a kernel without NUMA.
	text, err := d.text(f.folder + "/numa_node")
	if err != nil && !absent(err) {
		d.failed(fact+".numa", err)
	}
	if node, convErr := strconv.Atoi(text); err == nil && convErr == nil && node >= 0 {
		f.NUMA = &node
	}
	d.sawEach("pci", address, ".numa", pciFolder+"/{address}/numa_node")
	// A virtual function links to the card that it belongs to, which is listed itself. Inside a virtual machine the link is
	// not there, and the function is a card like any other.
	switch physical, err := linkBase(d, f.folder+"/physfn"); {
	case err == nil:
		f.PhysFn = &physical
		d.saw("pci[].physfn", pciFolder+"/{address}/physfn")
	case !absent(err):
		d.failed(fact+".physfn", err)
	}
	return f, true
}

// fromUevent takes all that the kernel knows of a function from one file instead of six; at 64 functions that is half of
// the time. Source: pci_uevent in Linux' drivers/pci/pci-driver.c. Recorded trees mostly leave the file out.
func (d *detection) fromUevent(f *function) bool {
	data, err := d.ReadFile(f.folder+"/uevent", sysfsLimit)
	if err != nil {
		return false
	}
	var class, ids, subsystem, driver string
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "PCI_CLASS":
			class = strings.ToLower(value)
		case "PCI_ID":
			ids = strings.ToLower(value)
		case "PCI_SUBSYS_ID":
			subsystem = strings.ToLower(value)
		case "DRIVER":
			driver = value
		}
	}
	class = strings.Repeat("0", max(0, 6-len(class))) + class // printed without leading zeros
	vendor, device, _ := strings.Cut(ids, ":")
	subVendor, subDevice, _ := strings.Cut(subsystem, ":")
	if !isHex(class, 6) || !isHex(vendor, 4) || !isHex(device, 4) || !isHex(subVendor, 4) || !isHex(subDevice, 4) {
		return false
	}
	f.vendorID, f.deviceID, f.Class, f.subsystem = vendor, device, class, subsystem
	f.Subsystem = &subsystem
	if driver != "" {
		f.Driver = &driver
	}
	return true
}

// fromAttributes takes the same from a file each.
func (d *detection) fromAttributes(f *function, fact string) bool {
	for _, id := range []struct {
		file   string
		digits int
		into   *string
	}{{"vendor", 4, &f.vendorID}, {"device", 4, &f.deviceID}, {"class", 6, &f.Class}} {
		value, err := d.hexID(f.folder+"/"+id.file, id.digits)
		if err != nil {
			why := reason(err)
			if absent(err) {
				why = "cannot read /" + f.folder + "/" + id.file + ": the device vanished or never answered"
			}
			d.broken(fact, why)
			return false
		}
		*id.into = value
	}
	if subsystem, err := d.subsystem(f.folder); err != nil {
		d.failed(fact+".subsystem", err)
	} else {
		f.subsystem, f.Subsystem = subsystem, &subsystem
	}
	driver, err := linkBase(d, f.folder+"/driver")
	switch {
	case err == nil:
		f.Driver = &driver
	case !absent(err):
		d.failed(fact+".driver", err)
	}
	return true
}

// subsystem is "10de:16c1". Snapshots of ghw leave its two files out, and have the modalias, which holds it too.
func (d *detection) subsystem(folder string) (string, error) {
	vendor, err := d.hexID(folder+"/subsystem_vendor", 4)
	if absent(err) {
		if alias, aliasErr := d.text(folder + "/modalias"); aliasErr == nil {
			if vendor, device, ok := modaliasSubsystem(alias); ok {
				return vendor + ":" + device, nil
			}
		}
	}
	if err != nil {
		return "", err
	}
	device, err := d.hexID(folder+"/subsystem_device", 4)
	return vendor + ":" + device, err
}

// modaliasSubsystem cuts 10de and 118f out of pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00.
func modaliasSubsystem(alias string) (vendor, device string, ok bool) {
	_, rest, _ := strings.Cut(alias, "sv0000")
	vendor, rest, _ = strings.Cut(rest, "sd0000")
	device, _, ok = strings.Cut(rest, "bc")
	return strings.ToLower(vendor), strings.ToLower(device), ok && isHex(vendor, 4) && isHex(device, 4)
}

func isHex(s string, digits int) bool {
	_, err := strconv.ParseUint(s, 16, 32)
	return err == nil && len(s) == digits
}

// hexID reads "0x10de" as "10de".
func (d *detection) hexID(name string, digits int) (string, error) {
	text, err := d.text(name)
	if err != nil {
		return "", err
	}
	value := strings.ToLower(strings.TrimPrefix(text, "0x"))
	if !isHex(value, digits) {
		return "", fmt.Errorf("/%s holds %q", name, text)
	}
	return value, nil
}

// sriov reads how many virtual functions there are; both nil where the function has none to offer.
func (d *detection) sriov(f function, list string) world.SRIOV {
	fact := list + "[" + f.Address + "]"
	total, err := d.text(f.folder + "/sriov_totalvfs")
	if err != nil {
		if !absent(err) {
			d.failed(fact+".sriov.total_vfs", err)
		}
		return world.SRIOV{}
	}
	var vfs world.SRIOV
	if n, err := strconv.Atoi(total); err == nil && n >= 0 {
		vfs.TotalVFs = &n
	}
	now, err := d.text(f.folder + "/sriov_numvfs")
	if err != nil {
		d.failed(fact+".sriov.num_vfs", err)
	} else if n, err := strconv.Atoi(now); err == nil && n >= 0 {
		vfs.NumVFs = &n
	}
	d.sawEach(list, f.Address, ".sriov", pciFolder+"/{address}/sriov_*")
	return vfs
}

// pcie reads the link between a device and the board.
// Source: Documentation/ABI/testing/sysfs-bus-pci, current_link_speed and its neighbours.
func (d *detection) pcie(f function, list string) world.PCIe {
	var link world.PCIe
	fact := list + "[" + f.Address + "].pcie"
	why := ""
	for _, x := range []struct {
		file  string
		speed **float64
		width **int
	}{{"current_link_speed", &link.GTs, nil}, {"current_link_width", nil, &link.Width}, {"max_link_speed", &link.MaxGTs, nil}, {"max_link_width", nil, &link.MaxWidth}} {
		text, err := d.text(f.folder + "/" + x.file)
		switch {
		case absent(err):
			why = "the kernel shows no PCI Express link"
			continue
		case errors.Is(err, syscall.EINVAL): // a device that has no such capability
			why = "the device tells no PCI Express link"
			continue
		case err != nil:
			d.failed(fact, err)
			return link
		}
		known := false
		if x.speed != nil {
			*x.speed, known = parseGTs(text)
		} else {
			*x.width, known = parseLanes(text)
		}
		if !known {
			why = fmt.Sprintf("the kernel gives %s %q", x.file, text)
		}
	}
	if why != "" {
		d.note(fact, why)
	}
	if link != (world.PCIe{}) {
		d.sawEach(list, f.Address, ".pcie", pciFolder+"/{address}/*_link_*")
	}
	return link
}

// parseGTs reads "16.0 GT/s PCIe", "8 GT/s" of older kernels, and refuses "Unknown" and what no generation has.
func parseGTs(text string) (*float64, bool) {
	number, unit, _ := strings.Cut(text, " ")
	gts, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "GT/s") || !(gts > 0 && gts <= 1024) {
		return nil, false
	}
	return &gts, true
}

// parseLanes reads a width; 0 and 255 are the kernel's "not known".
func parseLanes(text string) (*int, bool) {
	lanes, err := strconv.Atoi(text)
	if err != nil || lanes <= 0 || lanes > 64 {
		return nil, false
	}
	return &lanes, true
}
