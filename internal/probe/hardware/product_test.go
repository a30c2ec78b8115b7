package hardware

import (
	"testing"
)

func TestVirtualization(t *testing.T) {
	const (
		guest  = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu hypervisor\n"
		metal  = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu vmx\n"
		arm    = "processor\t: 0\nCPU implementer\t: 0x41\n"
		clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	)
	dmi := func(vendor, product string) map[string]string {
		return map[string]string{dmiFolder + "/sys_vendor": vendor, dmiFolder + "/product_name": product}
	}
	with := func(files map[string]string, more ...string) map[string]string {
		if files == nil {
			files = map[string]string{}
		}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	tests := map[string]struct {
		cpuinfo string
		files   map[string]string
		want    any
	}{
		"metal":       {metal, dmi("Dell Inc.", "PowerEdge R7625"), "none"},
		"KVM by QEMU": {guest, dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)"), "kvm"},
		"QEMU alone": {
			"processor: 0\nmodel name: QEMU TCG CPU version 2.5+\nflags: hypervisor\n",
			dmi("QEMU", "Standard PC"),
			"qemu",
		},
		"OpenStack": {guest, dmi("OpenStack Foundation", "OpenStack Nova"), "kvm"},
		"VMware":    {guest, dmi("VMware, Inc.", "VMware Virtual Platform"), "vmware"},
		"EC2, Nitro": {
			guest,
			with(dmi("Amazon EC2", "m7i.large"), clocks, "tsc kvm-clock"),
			"amazon",
		},
		"EC2, metal":     {metal, dmi("Amazon EC2", "m7i.metal-24xl"), "none"},
		"EC2, Arm metal": {arm, dmi("Amazon EC2", "c7g.metal"), "none"},
		"EC2, Arm":       {arm, dmi("Amazon EC2", "c7g.large"), "amazon"},
		"Google": {
			guest,
			with(dmi("Google", "Google Compute Engine"), clocks, "kvm-clock tsc"),
			"google",
		},
		"Hyper-V": {
			guest,
			with(dmi("Microsoft Corporation", "Virtual Machine"), clocks, "hyperv_clocksource_tsc_page acpi_pm"),
			"microsoft",
		},
		"Surface":    {metal, dmi("Microsoft Corporation", "Surface Laptop"), "none"},
		"VirtualBox": {guest, dmi("innotek GmbH", "VirtualBox"), "oracle"},
		"Xen guest":  {guest, with(nil, "sys/hypervisor/type", "xen"), "xen"},
		"Xen's owner": {
			metal,
			with(nil, "sys/hypervisor/type", "xen", "proc/xen/capabilities", "control_d"),
			"none",
		},
		"Firecracker": {guest, with(nil, clocks, "kvm-clock tsc"), "kvm"},
		"another":     {guest, nil, "vm-other"},
		"Arm, KVM, device tree": {
			arm,
			with(nil, "proc/device-tree/hypervisor/compatible", "linux,kvm\x00"),
			"kvm",
		},
		"Arm board":         {arm, with(nil, dmiFolder+"/sys_vendor", "Supermicro"), "none"},
		"Arm, not reported": {arm, nil, nil},
		"mainframe, z/VM": {
			arm,
			with(nil, "proc/sysinfo", "Manufacturer: IBM\nVM00 Control Program: z/VM    7.3.0\n"),
			"zvm",
		},
		"mainframe, KVM":               {arm, with(nil, "proc/sysinfo", "VM00 Control Program: KVM/Linux\n"), "kvm"},
		"mainframe, logical partition": {arm, with(nil, "proc/sysinfo", "Manufacturer: IBM\n"), "none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, Options{Tree: tree(t, with(tt.files, "proc/cpuinfo", tt.cpuinfo))})
			if got := value(facts.Virtualization); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if (tt.want == nil) != (why(facts, "virtualization") != "") {
				t.Errorf("got the reason %q, want that neither processor nor firmware reports it",
					why(facts, "virtualization"))
			}
		})
	}
}

func TestProduct(t *testing.T) {
	facts := detect(t, Options{Tree: tree(t, map[string]string{
		dmiFolder + "/product_name":   "R7625\n",
		dmiFolder + "/sys_vendor":     "System manufacturer",
		dmiFolder + "/product_serial": "",
		dmiFolder + "/product_uuid":   "00000000-0000-0000-0000-000000000000",
		dmiFolder + "/product_sku":    "Default string",
	})})
	p := facts.Product
	if value(p.Name) != "R7625" || p.Vendor != nil || p.Serial != nil || p.UUID != nil || p.SKU != nil {
		t.Errorf("got %v %v %v %v %v", value(p.Name), value(p.Vendor), value(p.Serial), value(p.UUID), value(p.SKU))
	}
	if got := why(facts, "product.uuid"); got != "the firmware leaves it at a placeholder" {
		t.Errorf("uuid: got the reason %q, want a placeholder", got)
	}
	facts = detect(t, Options{Tree: tree(t, map[string]string{"proc/device-tree/model": "Ampere Altra\x00"})})
	if value(facts.Product.Name) != "Ampere Altra" {
		t.Errorf("device tree: %v", value(facts.Product.Name))
	}
}

func TestSystem(t *testing.T) {
	facts := detect(
		t,
		Options{
			Tree: tree(
				t,
				map[string]string{
					"etc/machine-id":            "uninitialized\n",
					"usr/lib/os-release":        "ID=debian\n",
					"proc/sys/kernel/osrelease": "6.1.0\n",
				},
			),
		},
	)
	if facts.MachineID != nil || why(facts, "machine_id") == "" || value(facts.OS.ID) != "debian" ||
		value(facts.Kernel.Release) != "6.1.0" {
		t.Errorf("got %v %v %v", value(facts.MachineID), value(facts.OS.ID), value(facts.Kernel.Release))
	}
	if why(facts, "os.version_id") != "os-release has no VERSION_ID" {
		t.Errorf("version: got the reason %q, want that the file does not have it", why(facts, "os.version_id"))
	}
	facts = detect(
		t,
		Options{
			Tree: tree(
				t,
				map[string]string{
					"etc/os-release":     "-> ../usr/lib/os-release",
					"usr/lib/os-release": "ID=arch\n",
					"etc/machine-id":     "",
				},
			),
		},
	)
	if value(facts.OS.ID) != "arch" || why(facts, "machine_id") != "/etc/machine-id is empty" {
		t.Errorf("got %v, %q", value(facts.OS.ID), why(facts, "machine_id"))
	}
}
