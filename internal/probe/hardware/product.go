package hardware

import (
	"slices"
	"strings"
)

// readProduct reads how the firmware names the machine, and what hypervisor it runs on.
func (d *detection) readProduct() error {
	d.readFirmware()

	kind, from := d.virtualization()
	if kind == "" {
		d.note("virtualization", from)
	} else {
		d.facts.Virtualization = &kind
		d.evidence["virtualization"] = from
	}

	return nil
}

// isPlaceholder are the texts that board makers leave in, and uuids of one digit.
func isPlaceholder(text string) bool {
	if strings.Trim(text, "0-") == "" || strings.Trim(strings.ToLower(text), "f-") == "" {
		return true
	}
	return slices.Contains([]string{
		"to be filled by o.e.m.", "default string", "system product name", "system manufacturer", "system serial number",
		"not specified", "not applicable", "none", "n/a", "sku", "system sku",
	}, strings.ToLower(text))
}

// virtualization names the hypervisor as systemd-detect-virt --vm does, and where that was read; without a name, it says
// why. That program asks the processor (CPUID), which a recorded tree cannot be asked; the clock sources that the kernel
// offers follow from the same answer.
// Source: systemd's src/basic/virt.c, detect_vm and its table of DMI vendors.
func (d *detection) virtualization() (kind, from string) {
	const cpuinfo, capabilities = "/proc/cpuinfo", "/proc/xen/capabilities"
	dmi, field := d.dmiHypervisor()
	metal := d.cpuinfo.flags && !d.cpuinfo.hypervisor
	switch dmi {
	case "oracle", "xen", "amazon", "google", "parallels":
		// The vendors' own machines without a hypervisor carry the same names.
		if metal && dmi != "xen" {
			return "none", cpuinfo
		}
		name, _ := d.text(dmiFolder + "/product_name")
		if dmi == "amazon" && strings.HasSuffix(name, ".metal") {
			return "none", "/" + dmiFolder + "/product_name"
		}
		return dmi, field
	}
	if hypervisor, err := d.text("sys/hypervisor/type"); err == nil && hypervisor == "xen" {
		if rights, err := d.text("proc/xen/capabilities"); err == nil && strings.Contains(rights, "control_d") {
			return "none", capabilities // the domain that owns the machine
		}
		return "xen", "/sys/hypervisor/type"
	}
	if metal {
		return "none", cpuinfo
	}
	const clockFile = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	clocks, _ := d.text(clockFile)
	switch {
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm", "/" + clockFile
	case strings.Contains(clocks, "hyperv_clocksource"):
		return "microsoft", "/" + clockFile
	case dmi == "qemu" && d.cpuinfo.hypervisor && !d.isEmulatedCPU():
		return "kvm", cpuinfo // QEMU names the board, KVM runs it
	case dmi != "":
		return dmi, field
	}
	return d.otherHypervisor()
}

// otherHypervisor looks where machines without DMI say it.
func (d *detection) otherHypervisor() (kind, from string) {
	const deviceTree = "proc/device-tree/"
	if text, err := d.text(deviceTree + "hypervisor/compatible"); err == nil {
		kind := "vm-other"
		for _, known := range []struct{ mark, kind string }{{"linux,kvm", "kvm"}, {"xen", "xen"}, {"vmware", "vmware"}} {
			if strings.Contains(text, known.mark) {
				kind = known.kind
				break
			}
		}
		return kind, "/" + deviceTree + "hypervisor/compatible"
	}
	if data, err := d.ReadFile("proc/sysinfo", sysfsLimit); err == nil { // s390x
		for key, value := range fields(string(data)) {
			if key == "VM00 Control Program" {
				if strings.HasPrefix(value, "z/VM") {
					return "zvm", "/proc/sysinfo"
				}
				return "kvm", "/proc/sysinfo"
			}
		}
		return "none", "/proc/sysinfo"
	}
	_, partitionErr := d.text(deviceTree + "ibm,partition-name")
	_, managedErr := d.text(deviceTree + "hmc-managed?")
	switch {
	case d.platform() == "PowerNV": // POWER without a hypervisor below it; guests are "pSeries"
		return "none", "/proc/cpuinfo"
	case partitionErr == nil && managedErr == nil:
		return "powervm", "/" + deviceTree + "ibm,partition-name"
	case d.cpuinfo.hypervisor:
		return "vm-other", "/proc/cpuinfo"
	}
	if _, err := d.text(dmiFolder + "/sys_vendor"); err == nil {
		return "none", "/" + dmiFolder + "/"
	}
	return "", "neither processor nor firmware says whether this is a virtual machine"
}

// platform is POWER's line of that name, which stands behind all processors.
func (d *detection) platform() string {
	if d.cpuinfo.flags {
		return ""
	}
	data, _ := d.ReadFile("proc/cpuinfo", wholeCPUInfo)
	for key, value := range fields(string(data)) {
		if key == "platform" {
			return value
		}
	}
	return ""
}

func (d *detection) isEmulatedCPU() bool {
	return d.cpuinfo.model != nil && strings.Contains(*d.cpuinfo.model, "TCG")
}

// dmiHypervisor looks in the fields and the order that systemd does.
func (d *detection) dmiHypervisor() (kind, file string) {
	for _, field := range []string{"product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"} {
		text, err := d.text(dmiFolder + "/" + field)
		if err != nil {
			continue
		}
		for _, v := range [...]struct{ prefix, kind string }{
			{"KVM", "kvm"}, {"OpenStack", "kvm"}, {"KubeVirt", "kvm"}, {"Amazon EC2", "amazon"}, {"QEMU", "qemu"},
			{"VMware", "vmware"}, {"VMW", "vmware"}, {"innotek GmbH", "oracle"}, {"VirtualBox", "oracle"}, {"Xen", "xen"},
			{"Bochs", "bochs"}, {"Parallels", "parallels"}, {"BHYVE", "bhyve"}, {"Hyper-V", "microsoft"},
			{"Apple Virtualization", "apple"}, {"Google Compute Engine", "google"},
		} {
			if strings.HasPrefix(text, v.prefix) {
				return v.kind, "/" + dmiFolder + "/" + field
			}
		}
	}
	return "", ""
}
