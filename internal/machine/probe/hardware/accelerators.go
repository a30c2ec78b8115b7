package hardware

import (
	_ "embed"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/model/tape"
)

//go:embed kinds.txt
var kinds string

// kindRule is a line of the table of kinds.
type kindRule struct {
	kind    string
	classes []string // of PCI; none: each class
	devices []string // patterns of VENDOR:DEVICE
}

// listKinds parses the table of kinds, once for all functions of a machine.
var listKinds = sync.OnceValue(func() (rules []kindRule) {
	for kind, rule := range parseTable(kinds) {
		classes, devices, _ := strings.Cut(rule, " ")
		r := kindRule{kind: kind, devices: strings.Fields(devices)}
		if classes != "-" {
			r.classes = strings.Split(classes, ",")
		}
		rules = append(rules, r)
	}

	return rules
})

// acceleratorKind returns the kind of an accelerator by the table; ok is false for other functions. GPUs are identified
// by their PCI class, because a driver's folder (/sys/class/drm) contains a board's management controller, and no
// GPU that can only compute.
func acceleratorKind(f function) (kind string, ok bool) {
	isDevice := func(pattern string) bool {
		isMatch, err := path.Match(pattern, f.Device)
		return isMatch && err == nil
	}

	for _, rule := range listKinds() {
		isClass := rule.classes == nil || f.isClass(rule.classes...)
		if isClass && slices.ContainsFunc(rule.devices, isDevice) {
			// A DPU of two ports has two functions, and is one accelerator.
			isFirst := rule.kind != "dpu" || strings.HasSuffix(f.Address, ".0")
			return rule.kind, rule.kind != "none" && isFirst
		}
	}

	return "", false
}

func (d *detection) makeAccelerator(f function, kind string) tape.Accelerator {
	const list = "accelerators"

	fact := list + "[" + f.Address + "]"
	name, evidence := d.acceleratorName(f, fact)
	a := tape.Accelerator{
		Kind:     kind,
		Vendor:   d.vendorOf(f, list),
		Device:   &f.Device,
		NUMA:     f.NUMA,
		Driver:   f.Driver,
		Address:  &f.Address,
		SRIOV:    d.readSRIOV(f, list),
		PCIe:     d.readPCIe(f, list),
		Version:  d.driverVersion(f),
		Evidence: &evidence,
	}

	if f.NUMA == nil {
		d.note(fact+".numa", "the firmware gives no NUMA node")
	}

	if name == "" {
		why := "neither the driver nor the table names " + f.Device
		d.note(fact+".name", why)
		d.note(fact+".model", why)
	} else {
		model := trimVendor(name, f.vendorID)
		a.Name, a.Model = &name, &model
	}

	a.MemoryGiB = d.acceleratorMemory(f, fact)

	return a
}

func trimVendor(name, vendorID string) string {
	for _, prefix := range vendorPrefixes[vendorID] {
		if model, ok := strings.CutPrefix(name, prefix); ok {
			return model
		}
	}

	return name
}

// acceleratorName returns the name of NVIDIA's driver, which is that of nvidia-smi, otherwise that of the table.
func (d *detection) acceleratorName(f function, fact string) (name, evidence string) {
	if f.vendorID == "10de" {
		file := "proc/driver/nvidia/gpus/" + f.Address + "/information"

		model, err := d.readField(file, "Model")
		d.noteFailure(fact+".name", err)

		if model != "" && !strings.HasPrefix(model, "Unknown") {
			return model, "/" + file
		}
	}

	entry, exists := nameOf(f.Device, f.subsystem)
	if !exists {
		return "", "PCI class " + f.Class
	}

	evidence = entry.source + ": " + f.Device
	if entry.subsystem != "" {
		evidence += " of subsystem " + entry.subsystem
	}

	return entry.name, evidence
}

// acceleratorMemory returns the memory of a GPU without a vendor's library: amdgpu reports it in sysfs, and KFD
// for every node. NVIDIA's driver reports it if the GPU's memory is a NUMA node, as on POWER9 and Grace.
func (d *detection) acceleratorMemory(f function, fact string) *float64 {
	fact += ".memory_gib"

	var bytes int64

	file := f.folder + "/mem_info_vram_total"

	switch f.vendorID {
	case "1002":
		text, err := d.readText(file)

		bytes, _ = strconv.ParseInt(text, 10, 64)
		if bytes <= 0 {
			bytes = d.kfdMemory()[withoutFunction(f.Address)]
			file = kfdNodes
		}

		if bytes <= 0 && err != nil && !isAbsent(err) {
			d.noteError(fact, err)
			return nil
		}
	case "10de":
		file = "proc/driver/nvidia/gpus/" + f.Address + "/numa_status"
		bytes = d.nvidiaNodeSize(file)
	}

	if bytes <= 0 {
		d.note(fact, whyNoMemory(f))
		return nil
	}

	file = strings.ReplaceAll(file, f.Address, "{address}")
	d.setEachSource("accelerators", f.Address, ".memory_gib", file)
	gib := math.Round(float64(bytes)/(1<<30)*100) / 100

	return &gib
}

func whyNoMemory(f function) string {
	switch {
	case f.Driver == nil:
		return "no driver is bound"
	case f.vendorID == "1002":
		return "the driver " + *f.Driver + " does not report it"
	}

	return "only the vendor's library reports it; a detector can read it"
}

// nvidiaNodeSize returns the "Size" of a GPU's NUMA node, which is in hexadecimal bytes without 0x; 0 if it has none.
func (d *detection) nvidiaNodeSize(file string) int64 {
	text, _ := d.readField(file, "Size")

	size, err := strconv.ParseInt(text, 16, 64)
	if err != nil || size >= 1<<50 {
		return 0
	}

	return size
}

// driverVersion returns the version of the driver's module. Drivers of the kernel's own tree have none, which
// needs no note.
func (d *detection) driverVersion(f function) *string {
	if f.Driver == nil {
		return nil
	}

	file := "sys/bus/pci/drivers/" + *f.Driver + "/module/version"

	version, err := d.readText(file)
	if err != nil || version == "" {
		d.noteFailure("accelerators["+f.Address+"].driver_version", err)
		return nil
	}

	d.setEachSource("accelerators", f.Address, ".driver_version", file)

	return &version
}

// vendorOf returns the name of a function's vendor, nil with a note if it is unknown.
func (d *detection) vendorOf(f function, list string) *string {
	name := lookUp(vendors, f.vendorID)
	if name == "" {
		d.note(list+"["+f.Address+"].vendor", "no name is known for PCI vendor "+f.vendorID)
		return nil
	}

	d.setEachSourceText(list, f.Address, ".vendor", "prelet's own table")

	return &name
}
