package hardware

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jaypipes/ghw"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

const pciFolder = "sys/bus/pci/devices"

// pciAddress matches domain:bus:device.function. Domains have up to eight digits in virtual machines of some clouds
// and below Intel's VMD.
var pciAddress = texts.LazyRegexp(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$`)

// compareAddresses orders PCI addresses as numbers: 10000:00:00.0 comes after 0000:00:00.0. The kernel writes no
// leading zeros in a domain of more than four digits.
func compareAddresses(a, b string) int {
	return cmp.Or(
		cmp.Compare(len(a), len(b)),
		cmp.Compare(a, b),
	)
}

// function is a PCI function with the properties that accelerators and network cards are made from.
type function struct {
	tape.PCIDevice
	folder    string // sys/bus/pci/devices/ADDRESS
	vendorID  string // 10de
	deviceID  string // 2330
	subsystem string // vendor:device, or empty
}

func (f function) isClass(prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool {
		return strings.HasPrefix(f.Class, p)
	})
}

// readDevices reads the PCI bus, and makes accelerators and network cards of its functions.
func (d *detection) readDevices() error {
	names, err := d.list(pciFolder)
	if err != nil {
		for _, fact := range []string{"pci", "accelerators", "nics", "guids"} {
			d.noteError(fact, err) // a machine without PCI has no folder, which is not a failure
		}

		return nil
	}

	if len(names) == 0 { // as in a container: that is not a machine without GPUs
		for _, fact := range []string{"accelerators", "nics", "guids"} {
			d.note(fact, "the PCI bus has no device")
		}
	}
	functions := d.listFunctions(names)
	slices.SortStableFunc(functions, func(a, b function) int {
		return compareAddresses(a.Address, b.Address)
	})

	pci := make([]tape.PCIDevice, 0, len(functions))
	accelerators, nics := []tape.Accelerator{}, []tape.NIC{}
	d.kfdMemory = sync.OnceValue(d.readKFD)
	nodeless := 0

	for _, f := range functions {
		if d.ctx.Err() != nil {
			return nil
		}

		pci = append(pci, f.PCIDevice)

		if f.NUMA == nil {
			nodeless++
		}

		if f.PhysFn != nil {
			continue // a virtual function belongs to its card
		}

		if kind, isAccelerator := acceleratorKind(f); isAccelerator {
			accelerators = append(accelerators, d.makeAccelerator(f, kind))
		}

		if f.isClass("02") {
			nics = append(nics, d.makeNICs(f)...)
		}
	}

	if nodeless > 0 {
		why := fmt.Sprintf("the firmware gives no NUMA node for %d of %d devices", nodeless, len(pci))
		d.note("pci[].numa", why)
	}

	d.facts.PCI = pci
	d.facts.Accelerators = accelerators
	d.facts.NICs = nics
	d.facts.GUIDs = d.guids

	return nil
}

// listFunctions lists the functions of the bus. ghw 0.26 returns nothing if one function has no modalias or an
// address that it cannot parse; then the functions are read from sysfs.
func (d *detection) listFunctions(entries []string) []function {
	functions, err := d.listByLibrary(entries)
	if err != nil {
		d.note("pci", fmt.Sprintf("%v, so /%s was read instead", err, pciFolder))
		functions = d.listBySysfs(entries)
	}

	for i := range functions {
		d.completeFunction(&functions[i])
	}

	return functions
}

// listByLibrary lists the functions with ghw. It is an error if a function is missing.
func (d *detection) listByLibrary(entries []string) ([]function, error) {
	if err := withoutDatabase(); err != nil {
		return nil, err
	}

	info, warnings, err := callLibrary(d, ghw.PCI, pciFolder+"/*/modalias")
	if err != nil {
		return nil, err
	}

	var functions []function

	for _, device := range info.Devices {
		if f, ok := convertFunction(device); ok {
			functions = append(functions, f)
		}
	}

	if len(functions) < len(entries) {
		return nil, fmt.Errorf("ghw lists %d of %d functions (%s)",
			len(functions), len(entries), strings.Join(warnings, "; "))
	}

	d.noteWarnings("pci", warnings)

	if len(functions) > 0 {
		d.setSource("pci[]", pciFolder+"/{address}/modalias")
	}

	return functions, nil
}

// convertFunction converts a function of ghw. The ids of the subsystem are read from the modalias, because ghw's are
// those of the first subsystem in pci.ids with the same device id.
func convertFunction(device *ghw.PCIDevice) (function, bool) {
	subsystem, hasSubsystem := modaliasSubsystem(device.Modalias)

	f := function{
		folder:    pciFolder + "/" + device.Address,
		vendorID:  device.Vendor.ID,
		deviceID:  device.Product.ID,
		subsystem: subsystem,
	}
	class := device.Class.ID + device.Subclass.ID
	f.Address = device.Address
	f.Subsystem = &subsystem
	f.Class = class + device.ProgrammingInterface.ID

	hasDevice := isHex(f.vendorID, 4) && isHex(f.deviceID, 4)
	hasIDs := hasSubsystem && hasDevice && isHex(f.Class, 6)

	return f, hasIDs && pciAddress().MatchString(f.Address)
}

// listBySysfs reads the functions one by one. Functions without ids are omitted, with a reason in Unknown.
func (d *detection) listBySysfs(entries []string) []function {
	var functions []function

	for _, address := range entries {
		if !pciAddress().MatchString(address) || d.ctx.Err() != nil {
			continue
		}

		f := function{folder: pciFolder + "/" + address}
		f.Address = address

		if d.readAttributes(&f, "pci["+address+"]") {
			d.setSource("pci[]", pciFolder+"/{address}/")
			functions = append(functions, f)
		}
	}

	return functions
}

// completeFunction adds the properties that ghw does not read.
func (d *detection) completeFunction(f *function) {
	f.Device = f.vendorID + ":" + f.deviceID
	fact := "pci[" + f.Address + "]"

	// The kernel reports a negative node if the firmware gives none, as in all VMs. A kernel without NUMA has no
	// file.
	text, err := d.readText(f.folder + "/numa_node")
	d.noteFailure(fact+".numa", err)
	f.NUMA = parseCount(text)
	d.setSource("pci[].numa", pciFolder+"/{address}/numa_node")

	f.Driver = d.readLinkName(fact+".driver", f.folder+"/driver")

	// A virtual function links to its card. In a virtual machine the link does not exist, and the function is a card.
	f.PhysFn = d.readLinkName(fact+".physfn", f.folder+"/physfn")
	if f.PhysFn != nil {
		d.setSource("pci[].physfn", pciFolder+"/{address}/physfn")
	}

	if target, err := d.ReadLink(f.folder); err == nil { // a folder in some snapshots
		if parent := path.Base(path.Dir(target)); pciAddress().MatchString(parent) {
			f.Parent = &parent
			d.setSource("pci[].parent", pciFolder+"/{address}")
		}
	}
}

// readLinkName returns the last element of a link's target, nil if the link does not exist or cannot be read.
func (d *detection) readLinkName(fact, link string) *string {
	target, err := d.ReadLink(link)
	if err != nil {
		d.noteFailure(fact, err)
		return nil
	}

	name := path.Base(target)

	return &name
}

// parseCount returns a number from 0 on, nil for another text.
func parseCount(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil
	}

	return &n
}

// readAttributes reads the ids and the class of a function from a file each.
func (d *detection) readAttributes(f *function, fact string) bool {
	for _, id := range []struct {
		file   string
		digits int
		value  *string
	}{
		{"vendor", 4, &f.vendorID},
		{"device", 4, &f.deviceID},
		{"class", 6, &f.Class},
	} {
		file := f.folder + "/" + id.file

		value, err := d.readHexID(file, id.digits)
		if err != nil {
			why := describeError(err)
			if isAbsent(err) {
				why = "cannot read /" + file + ": the device vanished or never answered"
			}

			d.noteBroken(fact, why)

			return false
		}

		*id.value = value
	}

	subsystem, err := d.readSubsystem(f.folder)
	if err != nil {
		d.noteError(fact+".subsystem", err)
		return true
	}

	f.subsystem = subsystem
	f.Subsystem = &subsystem

	return true
}

// readSubsystem returns "10de:16c1". Snapshots of ghw omit its two files, and have it in the modalias.
func (d *detection) readSubsystem(folder string) (string, error) {
	vendor, err := d.readHexID(folder+"/subsystem_vendor", 4)
	if isAbsent(err) {
		alias, _ := d.readText(folder + "/modalias")
		if subsystem, ok := modaliasSubsystem(alias); ok {
			return subsystem, nil
		}
	}

	if err != nil {
		return "", err
	}

	device, err := d.readHexID(folder+"/subsystem_device", 4)

	return vendor + ":" + device, err
}

// modaliasSubsystem returns 10de:118f of pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00.
func modaliasSubsystem(alias string) (subsystem string, ok bool) {
	_, rest, _ := strings.Cut(alias, "sv0000")
	vendor, rest, _ := strings.Cut(rest, "sd0000")
	device, _, hasClass := strings.Cut(rest, "bc")

	subsystem = strings.ToLower(vendor + ":" + device)
	isValid := isHex(vendor, 4) && isHex(device, 4)

	return subsystem, hasClass && isValid
}

func isHex(s string, digits int) bool {
	_, err := strconv.ParseUint(s, 16, 32)
	return err == nil && len(s) == digits
}

// readHexID reads "0x10de" as "10de".
func (d *detection) readHexID(name string, digits int) (string, error) {
	text, err := d.readText(name)
	if err != nil {
		return "", err
	}

	value := strings.ToLower(strings.TrimPrefix(text, "0x"))
	if !isHex(value, digits) {
		return "", fmt.Errorf("/%s holds %q", name, text)
	}

	return value, nil
}

// readSRIOV returns the numbers of virtual functions, nil if the function does not support them.
func (d *detection) readSRIOV(f function, list string) tape.SRIOV {
	fact := list + "[" + f.Address + "].sriov"

	total, err := d.readText(f.folder + "/sriov_totalvfs")
	if err != nil {
		d.noteFailure(fact+".total_vfs", err)
		return tape.SRIOV{}
	}

	current, err := d.readText(f.folder + "/sriov_numvfs")
	if err != nil {
		d.noteError(fact+".num_vfs", err)
	}

	d.setEachSource(list, f.Address, ".sriov", pciFolder+"/{address}/sriov_*")

	return tape.SRIOV{
		TotalVFs: parseCount(total),
		NumVFs:   parseCount(current),
	}
}

// readPCIe reads the link between a device and the board.
// Source: Documentation/ABI/testing/sysfs-bus-pci, current_link_speed and its neighbours.
func (d *detection) readPCIe(f function, list string) tape.PCIe {
	var texts []string

	fact := list + "[" + f.Address + "].pcie"
	why := ""
	var failed error

	for _, name := range []string{
		"current_link_speed",
		"current_link_width",
		"max_link_speed",
		"max_link_width",
	} {
		text, err := d.readText(f.folder + "/" + name)
		texts = append(texts, text)
		isKnown := parseGTs(text) != nil
		if strings.HasSuffix(name, "_width") {
			isKnown = parseLanes(text) != nil
		}

		switch {
		case isAbsent(err):
			why = "the kernel shows no PCI Express link"
		case errors.Is(err, syscall.EINVAL): // the device does not have this capability
			why = "the device reports no PCI Express link"
		case err != nil:
			failed = err
		case !isKnown:
			why = fmt.Sprintf("the kernel gives %s %q", name, text)
		}
	}

	switch {
	case failed != nil:
		d.noteError(fact, failed)
	case why != "":
		d.note(fact, why)
	}

	link := tape.PCIe{
		GTs:      parseGTs(texts[0]),
		Width:    parseLanes(texts[1]),
		MaxGTs:   parseGTs(texts[2]),
		MaxWidth: parseLanes(texts[3]),
	}

	if link != (tape.PCIe{}) {
		d.setEachSource(list, f.Address, ".pcie", pciFolder+"/{address}/*_link_*")
		d.readErrors(&link, fact, f.folder)
	}

	return link
}

// parseGTs parses "16.0 GT/s PCIe", or "8 GT/s" of older kernels. It returns nil for "Unknown", and for a speed
// that no generation has.
func parseGTs(text string) *float64 {
	const mostGTs = 1024
	return parseSpeed(text, "GT/s", mostGTs)
}

// parseSpeed parses a number that is followed by a space and a unit. It returns nil for any other text, and for a
// number that is not above 0 and at most most.
func parseSpeed(text, unit string, most float64) *float64 {
	number, rest, _ := strings.Cut(text, " ")
	speed, err := strconv.ParseFloat(number, 64)
	isPossible := speed > 0 && speed <= most

	if err != nil || !isPossible || !strings.HasPrefix(rest, unit) {
		return nil
	}

	return &speed
}

// parseLanes parses a width. The kernel reports 0 or 255 for an unknown width.
func parseLanes(text string) *int {
	lanes, err := strconv.Atoi(text)
	if err != nil || lanes <= 0 || lanes > 64 {
		return nil
	}

	return &lanes
}
