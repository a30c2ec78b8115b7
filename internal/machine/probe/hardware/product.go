package hardware

import (
	"slices"
	"strings"
)

// readProduct reads the firmware's description of the machine, and its hypervisor.
func (d *detection) readProduct() error {
	d.readFirmware()

	kind, from := d.detectVirtualization()
	if kind == "" {
		d.note("virtualization", from)
	} else {
		d.facts.Virtualization = &kind
		d.evidence["virtualization"] = "/" + from
	}

	return nil
}

// placeholders are texts that board makers do not replace, in lower case.
var placeholders = []string{
	"to be filled by o.e.m.",
	"default string",
	"system product name",
	"system manufacturer",
	"system serial number",
	"not specified",
	"not applicable",
	"none",
	"n/a",
	"sku",
	"system sku",
}

// isPlaceholder reports whether a text is a placeholder, or a uuid of one digit.
func isPlaceholder(text string) bool {
	text = strings.ToLower(text)
	isZero := strings.Trim(text, "0-") == ""
	isOnes := strings.Trim(text, "f-") == ""

	return isZero || isOnes || slices.Contains(placeholders, text)
}

const (
	cpuinfoFile  = "proc/cpuinfo"
	clocksFile   = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	productFile  = dmiFolder + "/product_name"
	capabilities = "proc/xen/capabilities"
)

// detectVirtualization returns the hypervisor's name as systemd-detect-virt --vm prints it, and the file that it
// was read from; without a name, the reason. systemd-detect-virt uses CPUID, which a recorded tree does not have.
// The clock sources of the kernel follow from CPUID.
// Source: systemd's src/basic/virt.c, detect_vm and its table of DMI vendors.
func (d *detection) detectVirtualization() (kind, from string) {
	dmi, dmiFile := d.dmiHypervisor()
	isMetal := d.cpuinfo.hasFlags && !d.cpuinfo.isGuest

	if slices.Contains([]string{"oracle", "xen", "amazon", "google", "parallels"}, dmi) {
		product, _ := d.readText(productFile)

		switch {
		case isMetal && dmi != "xen": // the vendors' own machines without a hypervisor have the same names
			return "none", cpuinfoFile
		case dmi == "amazon" && strings.HasSuffix(product, ".metal"):
			return "none", productFile
		}

		return dmi, dmiFile
	}

	if hypervisor, _ := d.readText("sys/hypervisor/type"); hypervisor == "xen" {
		rights, _ := d.readText(capabilities)
		if strings.Contains(rights, "control_d") {
			return "none", capabilities // the domain that controls the machine
		}

		return "xen", "sys/hypervisor/type"
	}

	if isMetal {
		return "none", cpuinfoFile
	}

	clocks, _ := d.readText(clocksFile)

	switch {
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm", clocksFile
	case strings.Contains(clocks, "hyperv_clocksource"):
		return "microsoft", clocksFile
	case dmi == "qemu" && d.cpuinfo.isGuest && !d.isEmulatedCPU():
		return "kvm", cpuinfoFile // QEMU names the board, KVM runs it
	case dmi != "":
		return dmi, dmiFile
	}

	return d.detectWithoutDMI()
}

// detectWithoutDMI returns the hypervisor of machines without DMI.
func (d *detection) detectWithoutDMI() (kind, from string) {
	const hypervisorFile = deviceTreeFolder + "/hypervisor/compatible"

	if text, err := d.readText(hypervisorFile); err == nil {
		for _, kind := range []string{"kvm", "xen", "vmware"} {
			if strings.Contains(text, kind) {
				return kind, hypervisorFile
			}
		}

		return "vm-other", hypervisorFile
	}

	if program, err := d.readField("proc/sysinfo", "VM00 Control Program"); err == nil { // s390x
		switch {
		case program == "":
			return "none", "proc/sysinfo"
		case strings.HasPrefix(program, "z/VM"):
			return "zvm", "proc/sysinfo"
		}

		return "kvm", "proc/sysinfo"
	}

	_, partitionErr := d.readText(deviceTreeFolder + "/ibm,partition-name")
	_, managedErr := d.readText(deviceTreeFolder + "/hmc-managed?")
	_, vendorErr := d.readText(dmiFolder + "/sys_vendor")

	switch {
	case d.readPlatform() == "PowerNV": // POWER without a hypervisor; guests are "pSeries"
		return "none", cpuinfoFile
	case partitionErr == nil && managedErr == nil:
		return "powervm", deviceTreeFolder + "/ibm,partition-name"
	case d.cpuinfo.isGuest:
		return "vm-other", cpuinfoFile
	case vendorErr == nil:
		return "none", dmiFolder + "/"
	}

	return "", "neither the processor nor the firmware reports whether this is a virtual machine"
}

// readPlatform returns the line "platform" of POWER's cpuinfo, which follows all processors.
func (d *detection) readPlatform() string {
	if d.cpuinfo.hasFlags {
		return ""
	}

	data, _ := d.ReadFile(cpuinfoFile, wholeCPUInfo)

	return findField(data, "platform")
}

func (d *detection) isEmulatedCPU() bool {
	model := d.cpuinfo.model
	return model != nil && strings.Contains(*model, "TCG")
}

// dmiHypervisor reads the fields of DMI in the order of systemd.
func (d *detection) dmiHypervisor() (kind, file string) {
	for _, field := range []string{"product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"} {
		text, _ := d.readText(dmiFolder + "/" + field)

		for kind, prefix := range parseTable(hypervisors) {
			if strings.HasPrefix(text, prefix) {
				return kind, dmiFolder + "/" + field
			}
		}
	}

	return "", ""
}
