package hardware

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

const dmiFolder = "sys/class/dmi/id"

// readProduct reads how the firmware names the machine, and what hypervisor it runs on.
func (d *detection) readProduct() error {
	var p world.Product
	for _, field := range []struct {
		file, fact string
		into       **string
	}{
		{"product_name", "product.name", &p.Name},
		{"sys_vendor", "product.vendor", &p.Vendor},
		{"product_serial", "product.serial", &p.Serial},
		{"product_uuid", "product.uuid", &p.UUID},
		{"product_sku", "product.sku", &p.SKU},
	} {
		text, err := d.text(dmiFolder + "/" + field.file)
		if absent(err) && field.file == "product_name" {
			// Machines without DMI, as most of Arm's, have a device tree; its strings end with NUL.
			text, err = d.text("proc/device-tree/model")
			text = strings.TrimRight(text, "\x00")
			if absent(err) {
				d.note(field.fact, "there is neither /"+dmiFolder+"/product_name nor a device tree")
				continue
			}
		}
		switch {
		case err != nil:
			d.failed(field.fact, err)
		case isPlaceholder(text):
			d.note(field.fact, "the firmware leaves it at a placeholder")
		default:
			*field.into = &text
		}
	}
	d.facts.Product = p

	kind, why := d.virtualization()
	if kind == "" {
		d.note("virtualization", why)
	} else {
		d.facts.Virtualization = &kind
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

// virtualization names the hypervisor as systemd-detect-virt --vm does. That program asks the processor (CPUID), which a
// recorded tree cannot be asked; the clock sources that the kernel offers follow from the same answer.
// Source: systemd's src/basic/virt.c, detect_vm and its table of DMI vendors.
func (d *detection) virtualization() (kind, why string) {
	dmi := d.dmiHypervisor()
	metal := d.cpuinfo.flags && !d.cpuinfo.hypervisor
	switch dmi {
	case "oracle", "xen", "amazon", "google", "parallels":
		// The vendors' own machines without a hypervisor carry the same names.
		if metal && dmi != "xen" {
			return "none", ""
		}
		name, _ := d.text(dmiFolder + "/product_name")
		if dmi == "amazon" && strings.HasSuffix(name, ".metal") {
			return "none", ""
		}
		return dmi, ""
	}
	if hypervisor, err := d.text("sys/hypervisor/type"); err == nil && hypervisor == "xen" {
		if rights, err := d.text("proc/xen/capabilities"); err == nil && strings.Contains(rights, "control_d") {
			return "none", "" // the domain that owns the machine
		}
		return "xen", ""
	}
	if metal {
		return "none", ""
	}
	clocks, _ := d.text("sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch {
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm", ""
	case strings.Contains(clocks, "hyperv_clocksource"):
		return "microsoft", ""
	case dmi == "qemu" && d.cpuinfo.hypervisor && !d.isEmulatedCPU():
		return "kvm", "" // QEMU names the board, KVM runs it
	case dmi != "":
		return dmi, ""
	}
	return d.otherHypervisor()
}

// otherHypervisor looks where machines without DMI say it.
func (d *detection) otherHypervisor() (kind, why string) {
	if text, err := d.text("proc/device-tree/hypervisor/compatible"); err == nil {
		switch {
		case strings.Contains(text, "linux,kvm"):
			return "kvm", ""
		case strings.Contains(text, "xen"):
			return "xen", ""
		case strings.Contains(text, "vmware"):
			return "vmware", ""
		}
		return "vm-other", ""
	}
	if data, err := d.ReadFile("proc/sysinfo", sysfsLimit); err == nil { // s390x
		for key, value := range fields(string(data)) {
			if key == "VM00 Control Program" {
				if strings.HasPrefix(value, "z/VM") {
					return "zvm", ""
				}
				return "kvm", ""
			}
		}
		return "none", ""
	}
	if d.cpuinfo.hypervisor {
		return "vm-other", ""
	}
	if _, err := d.text(dmiFolder + "/sys_vendor"); err == nil {
		return "none", ""
	}
	return "", "neither processor nor firmware says whether this is a virtual machine"
}

func (d *detection) isEmulatedCPU() bool {
	return d.cpuinfo.model != nil && strings.Contains(*d.cpuinfo.model, "TCG")
}

// dmiHypervisor looks in the fields and the order that systemd does.
func (d *detection) dmiHypervisor() string {
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
				return v.kind
			}
		}
	}
	return ""
}
