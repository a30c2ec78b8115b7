package hardware

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// accelerator says whether a function is one, and of what kind. A GPU is what its PCI class says, because a driver's
// folder (/sys/class/drm) lists a board's management controller and misses GPUs that compute only.
func accelerator(f function) (kind string, ok bool) {
	switch {
	case f.vendorID == "15b3" && isBlueField(f.deviceID):
		// A card of two ports has two functions, and is one accelerator.
		return "dpu", f.order.function == 0
	case f.vendorID == "1da3" && f.isClass("12", "0b40", "0880"):
		return "npu", true
	case f.vendorID == "1d0f" && isNeuron(f.deviceID):
		return "npu", true
	case f.isClass("0300", "0302", "0380"):
		return "gpu", !isDisplayOnly(f)
	case f.isClass("1200", "0b40"):
		return computeKind(f)
	}
	return "", false
}

// isBlueField knows the network functions of NVIDIA's BlueField 1 to 4. Source: pci.ids 2026.10.24.
func isBlueField(device string) bool {
	return slices.Contains([]string{"a2d2", "a2d6", "a2d9", "a2dc", "a2df"}, device)
}

// isNeuron knows AWS's Inferentia and Trainium, whose class is not always that of an accelerator. Source: pci.ids
// 2026.10.24.
func isNeuron(device string) bool {
	return slices.Contains([]string{"7064", "7164", "7264", "7364", "7564", "7565"}, device)
}

// isIntelFPGA knows programmable acceleration cards and their virtual functions. Source: Linux' drivers/fpga/dfl-pci.c.
func isIntelFPGA(device string) bool {
	return slices.Contains([]string{"bcbd", "bcc0", "09c4", "0b30", "0b2b", "bcce", "bcbf", "bcc1", "09c5", "0b2c", "bccf"}, device)
}

// computeKind is the kind of a processing accelerator (1200) or a co-processor (0b40).
func computeKind(f function) (string, bool) {
	switch f.vendorID {
	case "10de", "1002":
		return "gpu", true
	case "10ee", "1172", "1b59": // Xilinx, Altera, Achronix
		return "fpga", true
	case "8086":
		switch {
		case isIntelFPGA(f.deviceID):
			return "fpga", true
		case f.isClass("0b40") && !strings.HasPrefix(f.deviceID, "225"):
			return "", false // QuickAssist, which compresses and encrypts; 2250 to 225e are Xeon Phi (pci.ids)
		}
	}
	return "npu", true
}

// isDisplayOnly are the screens of management controllers and of virtual machines: class VGA, and nothing to compute on.
// Source: pci.ids 2026.10.24, but for 1234, which nobody owns: it is QEMU's own (docs/specs/standard-vga.rst).
func isDisplayOnly(f function) bool {
	switch f.vendorID {
	case "1a03", // ASPEED, most boards' controller
		"102b", // Matrox G200 in iDRAC, iLO and others
		"126f", // Silicon Motion
		"18ca", // XGI Volari
		"19a2", // Emulex Pilot
		"1234", // Bochs and QEMU std
		"1b36", // QXL
		"1af4", // virtio-gpu
		"1013", // Cirrus
		"15ad", // VMware SVGA
		"80ee", // VirtualBox
		"1ab8", // Parallels
		"1414", // Hyper-V
		"5853", // Xen
		"1d0f": // Amazon's console
		return true
	case "1002":
		return f.deviceID == "515e" || f.deviceID == "5159" || f.deviceID == "4752" // ES1000, RV100, Rage XL on server boards
	case "19e5":
		return f.deviceID == "1711" // Hi1710 in Huawei's iBMC
	}
	return false
}

func (d *detection) accelerator(f function, kind string, kfd func() map[pciAddress]int64) world.Accelerator {
	fact := "accelerators[" + f.Address + "]"
	a := world.Accelerator{Kind: kind, Device: &f.Device, NUMA: f.NUMA, Driver: f.Driver, Address: &f.Address,
		SRIOV: d.sriov(f, "accelerators"), PCIe: d.pcie(f, "accelerators"), Version: d.driverVersion(f)}
	a.Vendor = d.vendor(f, "accelerators")
	if f.NUMA == nil {
		d.note(fact+".numa", "the firmware gives no NUMA node")
	}
	name, evidence := d.acceleratorName(f, fact)
	a.Evidence = &evidence
	if name == "" {
		for _, field := range []string{".name", ".model"} {
			d.note(fact+field, "neither the driver nor the table names "+f.Device)
		}
	} else {
		model := name
		for _, prefix := range vendorPrefixes(f.vendorID) {
			if rest, cut := strings.CutPrefix(name, prefix); cut {
				model = rest
				break
			}
		}
		a.Name, a.Model = &name, &model
	}
	a.MemoryGiB = d.acceleratorMemory(f, fact, kfd)
	return a
}

// acceleratorName asks NVIDIA's driver first, which prints what nvidia-smi prints, and then the table.
func (d *detection) acceleratorName(f function, fact string) (name, evidence string) {
	if f.vendorID == "10de" {
		file := "proc/driver/nvidia/gpus/" + f.Address + "/information"
		data, err := d.ReadFile(file, sysfsLimit)
		if err != nil && !absent(err) {
			d.failed(fact+".name", err)
		}
		for key, value := range fields(string(data)) {
			if key == "Model" && value != "" && !strings.HasPrefix(value, "Unknown") {
				return value, "/" + file
			}
		}
	}
	if entry, ok := nameOf(f.product, f.subsystem); ok {
		evidence = entry.source + ": " + f.Device
		if entry.subsystem != "" {
			evidence += " of subsystem " + entry.subsystem
		}
		return entry.name, evidence
	}
	return "", "PCI class " + f.Class
}

// acceleratorMemory is known without a vendor's library where amdgpu tells it in sysfs, or KFD of every node, and where
// NVIDIA's driver gives a GPU's memory to the kernel as a NUMA node, as on POWER9 and Grace.
func (d *detection) acceleratorMemory(f function, fact string, kfd func() map[pciAddress]int64) *float64 {
	var bytes int64
	file := f.folder + "/mem_info_vram_total"
	switch f.vendorID {
	case "1002":
		text, err := d.text(file)
		if bytes, _ = strconv.ParseInt(text, 10, 64); err != nil || bytes <= 0 {
			at := f.order
			at.function = 0
			bytes = kfd()[at]
			file = kfdNodes
		}
		if bytes <= 0 && err != nil && !absent(err) {
			d.failed(fact+".memory_gib", err)
			return nil
		}
	case "10de":
		file = "proc/driver/nvidia/gpus/" + f.Address + "/numa_status"
		bytes = d.nvidiaNodeSize(file)
	}
	if bytes <= 0 {
		why := "only the vendor's library tells it; a detector asks that"
		switch {
		case f.Driver == nil:
			why = "no driver is bound"
		case f.vendorID == "1002":
			why = "the driver " + *f.Driver + " tells none"
		}
		d.note(fact+".memory_gib", why)
		return nil
	}
	d.sawEach("accelerators", f.Address, ".memory_gib", strings.ReplaceAll(file, f.Address, "{address}"))
	gib := math.Round(float64(bytes)/(1<<30)*100) / 100
	return &gib
}

// nvidiaNodeSize is the "Size" of a GPU's NUMA node, in hexadecimal bytes without 0x; 0 where it has none.
func (d *detection) nvidiaNodeSize(file string) int64 {
	data, err := d.ReadFile(file, sysfsLimit)
	if err != nil {
		return 0
	}
	for key, value := range fields(string(data)) {
		if key == "Size" {
			if size, err := strconv.ParseInt(value, 16, 64); err == nil && size < 1<<50 {
				return size
			}
		}
	}
	return 0
}

// driverVersion is what the driver's module reports of itself. Drivers of the kernel's own tree report nothing, which is not
// worth a note.
func (d *detection) driverVersion(f function) *string {
	if f.Driver == nil {
		return nil
	}

	file := "sys/bus/pci/drivers/" + *f.Driver + "/module/version"

	version, err := d.text(file)
	if err != nil || version == "" {
		return nil
	}

	d.sawEach("accelerators", f.Address, ".driver_version", file)

	return &version
}

// vendor names the vendor id, or notes that nobody knows it.
func (d *detection) vendor(f function, list string) *string {
	name := vendorName(f.vendorID)
	if name == "" {
		d.note(list+"["+f.Address+"].vendor", "no name is known for PCI vendor "+f.vendorID)
		return nil
	}
	d.toldEach(list, f.Address, ".vendor", "prelet's own table")
	return &name
}
