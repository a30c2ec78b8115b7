package hardware

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jaypipes/ghw"
	"github.com/jaypipes/pcidb"

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
	product   *pcidb.Product
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
	functions := slices.DeleteFunc(d.functions(names), func(f function) bool {
		return slices.Contains(d.without, f.Address)
	})
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

// functions lists what is on the bus. ghw 0.26 returns nothing at all where one function has no modalias or an address
// that it cannot parse; then all are read one by one.
func (d *detection) functions(entries []string) []function {
	functions, err := d.functionsOfLibrary(entries)
	if err != nil {
		d.note("pci", fmt.Sprintf("%v, so /%s was read instead", err, pciFolder))
		functions = d.functionsOfSysfs(entries)
	}

	for i := range functions {
		d.completeFunction(&functions[i])
	}

	return functions
}

// functionsOfLibrary lists the functions that ghw finds. It is an error if they are not exactly the entries of the bus.
func (d *detection) functionsOfLibrary(entries []string) ([]function, error) {
	if _, err := databasePath(); err != nil {
		return nil, err
	}

	info, warnings, err := ask(d, ghw.PCI, pciFolder+"/*/modalias", pciFolder+"/*/driver")
	if err != nil {
		return nil, err
	}

	var functions []function

	for _, device := range info.Devices {
		if f, ok := fromLibrary(device); ok {
			functions = append(functions, f)
		}
	}

	if len(functions) < len(entries) {
		return nil, fmt.Errorf("ghw lists %d of %d functions (%s)",
			len(functions), len(entries), strings.Join(warnings, "; "))
	}

	d.noteWarnings("pci", warnings)

	for _, f := range functions {
		if d.live || f.Driver != nil { // of this machine, a driver may have come since
			continue
		}
		if _, err := d.ReadLink(f.folder + "/driver"); !absent(err) {
			d.broken("pci["+f.Address+"].driver", "/"+f.folder+"/driver cannot be copied for ghw")
		}
	}

	if len(functions) > 0 {
		d.saw("pci[]", pciFolder+"/{address}/modalias")
	}

	return functions, nil
}

// fromLibrary converts a function that ghw lists. The ids of the subsystem are read from the modalias, because ghw's
// are those of the first subsystem in pci.ids with the same device id.
func fromLibrary(device *ghw.PCIDevice) (function, bool) {
	order, isAddress := parsePCIAddress(device.Address)
	class := device.Class.ID + device.Subclass.ID + device.ProgrammingInterface.ID
	vendor, subDevice, hasSubsystem := modaliasSubsystem(device.Modalias)

	f := function{
		order: order, folder: pciFolder + "/" + device.Address, vendorID: device.Vendor.ID, deviceID: device.Product.ID,
		subsystem: vendor + ":" + subDevice, product: device.Product,
	}
	f.Address, f.Class, f.Subsystem = device.Address, class, &f.subsystem

	if device.Driver != "" {
		f.Driver = &device.Driver
	}

	return f, isAddress && hasSubsystem && isHex(class, 6) && isHex(f.vendorID, 4) && isHex(f.deviceID, 4)
}

// functionsOfSysfs reads the functions one by one. One without ids is left out, and Unknown tells why.
func (d *detection) functionsOfSysfs(entries []string) []function {
	names, err := database()
	if err != nil {
		d.broken("pci", err.Error())
		names = &pcidb.DB{}
	}

	var functions []function

	for _, address := range entries {
		order, isAddress := parsePCIAddress(address)
		if !isAddress || d.ctx.Err() != nil {
			continue
		}

		f := function{order: order, folder: pciFolder + "/" + address}
		f.Address = address

		if d.fromAttributes(&f, "pci["+address+"]") {
			f.product = names.Products[f.vendorID+f.deviceID]
			d.saw("pci[]", pciFolder+"/{address}/")
			functions = append(functions, f)
		}
	}

	return functions
}

// completeFunction adds what ghw does not read.
func (d *detection) completeFunction(f *function) {
	f.Device = f.vendorID + ":" + f.deviceID
	fact := "pci[" + f.Address + "]"

	// A negative node is the kernel's "the firmware did not say", which is all VMs; no file is a kernel without NUMA.
	text, err := d.text(f.folder + "/numa_node")
	if err != nil && !absent(err) {
		d.failed(fact+".numa", err)
	}
	if node, convErr := strconv.Atoi(text); err == nil && convErr == nil && node >= 0 {
		f.NUMA = &node
	}
	d.saw("pci[].numa", pciFolder+"/{address}/numa_node")

	// A virtual function links to the card that it belongs to, which is listed itself. Inside a virtual machine the
	// link is not there, and the function is a card like any other.
	switch physical, err := linkBase(d, f.folder+"/physfn"); {
	case err == nil:
		f.PhysFn = &physical
		d.saw("pci[].physfn", pciFolder+"/{address}/physfn")
	case !absent(err):
		d.failed(fact+".physfn", err)
	}
}

// fromAttributes reads ids, class and driver of a function from a file each.
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
