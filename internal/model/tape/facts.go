package tape

import (
	"cmp"
	"slices"
	"strings"
)

// Facts is the hardware that detect-hw found on one machine: the answer to the question "facts", with the names that
// sites use. Lists are sorted by PCI address, then name, so that a hundred detections give one byte
// sequence. A nil pointer is "unknown", with its reason in Unknown; collections and objects are never nil in
// the language, their fields may be.
type Facts struct {
	CPU          CPU                  `json:"cpu"`
	Memory       Memory               `json:"memory"`
	NUMA         []NUMANode           `json:"numa"`
	PCI          []PCIDevice          `json:"pci"`
	Accelerators []Accelerator        `json:"accelerators"`
	NICs         []NIC                `json:"nics"`
	Interfaces   map[string]Interface `json:"interfaces"` // by name; anything with an address
	// nil in recordings made before there was this fact, and the addresses of interfaces.
	DefaultRoute *DefaultRoutes `json:"default_route"`
	Product      Product        `json:"product"`
	BIOS         BIOS           `json:"bios"`
	Chassis      Chassis        `json:"chassis"`
	Baseboard    Baseboard      `json:"baseboard"`
	// By name; nil in recordings made before there was this fact.
	BlockDevices []BlockDevice `json:"block_devices"`
	// As systemd-detect-virt names it: "none", "kvm", "vmware", ….
	Virtualization *string           `json:"virtualization"`
	Kernel         Kernel            `json:"kernel"`
	OS             OS                `json:"os"`
	Runtime        Runtime           `json:"runtime"`
	MachineID      *string           `json:"machine_id"`
	GUIDs          map[string]string `json:"guids"` // of RDMA devices, by name: "mlx5_0": "0002:c903:0000:1234"
	// The units that the site waits for, by name: one of the states below. Nil in recordings without them.
	Units   map[string]*string `json:"units,omitempty"`
	Unknown []UnknownFact      `json:"unknown"` // what could not be found out, and why
	// Evidence is where each fact was read, by the fact's name, "cpu.model": "/proc/cpuinfo". A name that ends early
	// ("os") is for all below it; "nics[].link" is for every card, with {address} and {interface} in the file's name,
	// unless there is "nics[0000:1b:00.0].link" for one.
	Evidence map[string]string `json:"evidence"`
}

// The states of units that the site waits for. All but UnitDone and UnitSkipped degrade the boot.
const (
	UnitDone    = "done"    // it runs, or has ended without a failure
	UnitSkipped = "skipped" // one of its conditions does not hold
	UnitFailed  = "failed"
	UnitMasked  = "masked"
	UnitMissing = "missing" // systemd has no such unit, or cannot read it
	UnitLate    = "late"    // its job waits for the end of this run

	UnitNotStarted = "not-started" // nothing has started it in time
	UnitUnfinished = "unfinished"  // it has not ended in time
	UnitUnknown    = "unknown"     // systemd does not answer; in facts it is null
)

// CPU counts online threads and cores. Cores are sorted by their first thread.
type CPU struct {
	Vendor  *string   `json:"vendor"` // as /proc/cpuinfo: GenuineIntel, AuthenticAMD, …
	Model   *string   `json:"model"`
	Arch    *string   `json:"architecture"` // amd64 | arm64, as Go names it; nil in recordings without DefaultRoute
	Logical *int      `json:"logical"`      // online threads
	Offline []int     `json:"offline"`      // threads that exist and are switched off
	SMT     *bool     `json:"smt"`          // whether a core runs several threads now
	Cores   []CPUCore `json:"cores"`
}

// CPUCore is one physical core with its online threads.
type CPUCore struct {
	Node    *int    `json:"node"`    // NUMA node
	Package *int    `json:"package"` // socket
	Kind    *string `json:"kind"`    // performance | efficient | low-power; nil where all cores are alike
	CPUs    []int   `json:"cpus"`
}

// Memory is the machine's. HugePages counts pages by size as Kubernetes writes it ("2Mi", "1Gi").
type Memory struct {
	TotalBytes *int64         `json:"total_bytes"` // MemTotal
	HugePages  map[string]int `json:"hugepages"`
	// As the kernel's command line and sysctl.d ask for. Nil in recordings made before there was this fact.
	HugePagesAsked map[string]int `json:"hugepages_asked"`
	// Of NUMA nodes without CPUs, next to NVIDIA's GPUs: memory of the GPUs that the driver has made the system's.
	GPUBytes *int64 `json:"gpu_bytes"`
	// Of all memory controllers, since the boot (EDAC).
	UncorrectedErrors *int64 `json:"uncorrected_errors"`
}

// CountGPUBytes returns Memory.GPUBytes, also of facts that lack it, or why it is not known.
func (f Facts) CountGPUBytes() (sum int64, unknown string) {
	isNVIDIA := func(a Accelerator) bool { return a.Vendor != nil && *a.Vendor == "nvidia" }
	hasNVIDIA := slices.ContainsFunc(f.Accelerators, isNVIDIA)
	ofDevices, ofNodes := "", ""
	for _, u := range f.Unknown {
		list, field, isElement := strings.Cut(u.Fact, "[")
		_, field, _ = strings.Cut(field, "]")
		switch {
		case u.Fact == "accelerators", list == "pci" && isElement && field == "":
			ofDevices = cmp.Or(ofDevices, u.Fact)
		case u.Fact == "numa", list == "numa" && (field == ".cpus" || field == ".memory_bytes"):
			ofNodes = cmp.Or(ofNodes, u.Fact)
		}
	}

	for _, n := range f.NUMA {
		if len(n.CPUs) == 0 && n.MemoryBytes != nil {
			sum += *n.MemoryBytes
		}
	}

	switch {
	case !hasNVIDIA && ofDevices == "":
		return 0, ""
	case ofNodes != "":
		return 0, ofNodes + " is not known"
	case !hasNVIDIA && sum > 0:
		return 0, ofDevices + " is not known"
	}

	return sum, ""
}

// NUMANode is one memory node; a machine without NUMA has node 0.
type NUMANode struct {
	ID          int            `json:"id"`
	CPUs        []int          `json:"cpus"`
	MemoryBytes *int64         `json:"memory_bytes"`
	HugePages   map[string]int `json:"hugepages"`
}

// PCIDevice is one function on the bus.
type PCIDevice struct {
	Address   string  `json:"address"`   // 0000:1b:00.0
	Device    string  `json:"device"`    // vendor:device, 10de:2330
	Subsystem *string `json:"subsystem"` // vendor:device
	Class     string  `json:"class"`     // four or six hex digits as sysfs has them, without 0x: 030200
	Driver    *string `json:"driver"`
	NUMA      *int    `json:"numa"`
	// Of a virtual function: the address of the physical one, if that is on this machine.
	PhysFn *string `json:"physfn"`
	// Of the bridge that it is behind; nil at the root, and in recordings from before there was this fact.
	Parent *string `json:"parent"`
}

// PCIe is a device's link to the board. Max is the device's own limit, in any slot.
type PCIe struct {
	// Gigatransfers a second of each lane, now: 2.5, 5, 8, 16, 32, 64. Idle GPUs lower it.
	GTs      *float64 `json:"gts"`
	Width    *int     `json:"width"`
	MaxGTs   *float64 `json:"max_gts"`
	MaxWidth *int     `json:"max_width"`
	// Uncorrected errors that the kernel has counted since the boot (AER), fatal and non-fatal.
	FatalErrors    *int `json:"fatal_errors"`
	NonfatalErrors *int `json:"nonfatal_errors"`
}

// SRIOV is a function's virtual functions; both null where it has none to offer.
type SRIOV struct {
	TotalVFs *int `json:"total_vfs"`
	NumVFs   *int `json:"num_vfs"`
}

// Accelerator is a GPU or its kin. Name is as the vendor prints it, Model the same without the vendor.
type Accelerator struct {
	Kind      string   `json:"kind"` // gpu | npu | fpga | dpu
	Vendor    *string  `json:"vendor"`
	Name      *string  `json:"name"`
	Model     *string  `json:"model"`
	Device    *string  `json:"device"`
	MemoryGiB *float64 `json:"memory_gib"`
	NUMA      *int     `json:"numa"`
	Driver    *string  `json:"driver"`
	Address   *string  `json:"address"`
	SRIOV     SRIOV    `json:"sriov"`
	PCIe      PCIe     `json:"pcie"`
	Version   *string  `json:"driver_version"` // as the driver reports it; drivers of the kernel's own tree have none
	Evidence  *string  `json:"evidence"`       // where name and kind were read
}

// NIC is a network card on the PCI bus (or virtio beneath it).
type NIC struct {
	Interface *string  `json:"interface"`
	Vendor    *string  `json:"vendor"`
	Model     *string  `json:"model"`
	Device    *string  `json:"device"`
	SpeedGbps *float64 `json:"speed_gbps"` // null while the link is down
	Link      *string  `json:"link"`       // up | down
	Driver    *string  `json:"driver"`
	NUMA      *int     `json:"numa"`
	Address   *string  `json:"address"`
	SRIOV     SRIOV    `json:"sriov"`
	PCIe      PCIe     `json:"pcie"`
	// InfiniBand lists the ports that speak RDMA, InfiniBand's own and those of RoCE and EFA, by device and number.
	InfiniBand []InfiniBandPort `json:"infiniband"`
}

// InfiniBandPort is a port of an RDMA device.
type InfiniBandPort struct {
	Device    *string  `json:"device"` // mlx5_0
	Port      *int     `json:"port"`
	LinkLayer *string  `json:"link_layer"` // infiniband | ethernet | unspecified
	State     *string  `json:"state"`      // active | init | armed | down | …, as the kernel names it, in lower case
	RateGbps  *float64 `json:"rate_gbps"`
}

// Interface is one network interface with its addresses in the kernel's order.
type Interface struct {
	IPv4 []string `json:"ipv4"`
	IPv6 []string `json:"ipv6"`
	MAC  *string  `json:"mac"`
	MTU  *int     `json:"mtu"`
	// Both families, in the kernel's order.
	Addresses []InterfaceAddress `json:"addresses"`
}

// InterfaceAddress is an address of an interface with the length of its network's prefix in bits.
type InterfaceAddress struct {
	Address      string `json:"address"`
	PrefixLength int    `json:"prefix_length"`
}

// DefaultRoutes are the routes for destinations that no other route covers.
type DefaultRoutes struct {
	IPv4 Route `json:"ipv4"`
	IPv6 Route `json:"ipv6"`
}

// RemoveInterface removes the routes through an interface. d may be nil.
func (d *DefaultRoutes) RemoveInterface(name string) {
	if d == nil {
		return
	}
	for _, r := range []*Route{&d.IPv4, &d.IPv6} {
		if r.Interface != nil && *r.Interface == name {
			*r = Route{}
		}
	}
}

// Route is a route. Its source is the address that outgoing packets have.
type Route struct {
	Interface *string `json:"interface"`
	Gateway   *string `json:"gateway"`
	Source    *string `json:"source"`
}

// Product is the machine as its firmware names it.
type Product struct {
	Name   *string `json:"name"`
	Vendor *string `json:"vendor"`
	Serial *string `json:"serial"`
	UUID   *string `json:"uuid"`
	SKU    *string `json:"sku"`
}

// BIOS is the firmware.
type BIOS struct {
	Vendor  *string `json:"vendor"`
	Version *string `json:"version"`
	Date    *string `json:"date"`
}

// Chassis is the case that the machine is in.
type Chassis struct {
	Type     *string `json:"type"` // in words, as SMBIOS lists them: Rack Mount Chassis
	Vendor   *string `json:"vendor"`
	Version  *string `json:"version"`
	Serial   *string `json:"serial"`
	AssetTag *string `json:"asset_tag"`
}

// Baseboard is the main board.
type Baseboard struct {
	Name     *string `json:"name"`
	Vendor   *string `json:"vendor"`
	Version  *string `json:"version"`
	Serial   *string `json:"serial"`
	AssetTag *string `json:"asset_tag"`
}

// BlockDevice is a disk or a drive, but not a loop device, an LVM volume or a RAID array.
type BlockDevice struct {
	Name          string  `json:"name"`       // sda, nvme0n1
	Type          *string `json:"type"`       // hdd | ssd | odd | fdd
	Controller    *string `json:"controller"` // scsi | nvme | virtio | mmc | ide
	SizeBytes     *int64  `json:"size_bytes"`
	PhysicalBlock *int    `json:"physical_block_bytes"`
	Rotational    *bool   `json:"rotational"`
	Removable     *bool   `json:"removable"`
	Vendor        *string `json:"vendor"`
	Model         *string `json:"model"`
	Serial        *string `json:"serial"`
	WWN           *string `json:"wwn"`
	State         *string `json:"state"` // live | dead | resetting, … of NVMe; running | offline, … of SCSI
}

// Kernel is the running kernel.
type Kernel struct {
	Release *string `json:"release"` // uname -r
	// Whether a processor has reported an uncorrected error since the boot.
	MachineCheck *bool `json:"machine_check"`
}

// OS is /etc/os-release.
type OS struct {
	ID        *string  `json:"id"`
	IDLike    []string `json:"id_like"`
	VersionID *string  `json:"version_id"`
	Name      *string  `json:"name"` // PRETTY_NAME
}

// Runtime is the container runtime according to its configuration; it may not run yet.
type Runtime struct {
	Endpoint     *string `json:"endpoint"`
	Name         *string `json:"name"` // containerd | cri-o
	Version      *string `json:"version"`
	CgroupDriver *string `json:"cgroup_driver"` // systemd | cgroupfs
}

// UnknownFact is the reason why a fact is null.
type UnknownFact struct {
	Fact string `json:"fact"` // nics[0000:b1:00.1].speed_gbps
	Why  string `json:"why"`
	// Degraded: the fact should have been readable (a file that failed or vanished), so the boot is degraded.
	Degraded bool `json:"degraded,omitempty"`
}
