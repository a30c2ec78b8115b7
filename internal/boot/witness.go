package boot

import "github.com/prelet/prelet/internal/world"

// Witnesses are the machines that validate tries a site on: nothing known, everything failed, and five that are
// real enough to show what a site takes for granted.
func Witnesses() []Witness {
	return []Witness{
		{Name: "unknown"},
		{Name: "all failed", Fails: true},
		{Name: "bare VM", Facts: makeBareVM()},
		{Name: "null facts", Facts: makeNullFacts()},
		{Name: "8×H100", Facts: makeAccelerated("nvidia", "NVIDIA H100 80GB HBM3", "H100 80GB HBM3", "10de:2330", "nvidia")},
		{Name: "8×MI300X", Facts: makeAccelerated("amd", "AMD Instinct MI300X", "Instinct MI300X", "1002:74a1", "amdgpu")},
		{Name: "two sockets", Facts: makeMachine(2, 32, 256<<30)},
	}
}

func ptr[T any](v T) *T { return &v }

func makeBareVM() *world.Facts {
	f := makeMachine(1, 2, 4<<30)
	f.Virtualization = ptr("kvm")
	return f
}

// machine has sockets with as many cores each, without hyper-threading, and no devices.
func makeMachine(sockets, cores int, memory int64) *world.Facts {
	f := &world.Facts{NUMA: []world.NUMANode{}, PCI: []world.PCIDevice{}, Accelerators: []world.Accelerator{}, NICs: []world.NIC{},
		Interfaces: map[string]world.Interface{}, Unknown: []world.UnknownFact{},
		Virtualization: ptr("none"), MachineID: ptr("00000000000000000000000000000001")}
	f.CPU = world.CPU{Vendor: ptr("GenuineIntel"), Model: ptr("witness"), Logical: ptr(sockets * cores), Cores: []world.CPUCore{}}
	f.Memory = world.Memory{TotalBytes: ptr(memory), HugePages: map[string]int{}}
	for s := range sockets {
		n := world.NUMANode{ID: s, MemoryBytes: ptr(memory / int64(sockets)), HugePages: map[string]int{}}
		for c := range cores {
			id := s*cores + c
			n.CPUs = append(n.CPUs, id)
			f.CPU.Cores = append(f.CPU.Cores, world.CPUCore{Node: ptr(s), Package: ptr(s), CPUs: []int{id}})
		}
		f.NUMA = append(f.NUMA, n)
	}
	f.Interfaces["eth0"] = world.Interface{IPv4: []string{"198.51.100.7"}, IPv6: []string{}, MAC: ptr("02:00:00:00:00:01"), MTU: ptr(1500)}
	f.Kernel.Release = ptr("6.1.0")
	f.OS = world.OS{ID: ptr("debian"), IDLike: []string{}, VersionID: ptr("12"), Name: ptr("Debian GNU/Linux 12 (bookworm)")}
	f.Product = world.Product{Name: ptr("witness"), Vendor: ptr("witness")}
	f.BIOS = world.BIOS{Vendor: ptr("witness"), Version: ptr("1.0"), Date: ptr("01/31/2026")}
	f.Chassis = world.Chassis{Type: ptr("Rack mount chassis"), Vendor: ptr("witness")}
	f.Baseboard = world.Baseboard{Name: ptr("witness"), Vendor: ptr("witness")}
	f.BlockDevices = []world.BlockDevice{{Name: "sda", Type: ptr("ssd"), Controller: ptr("scsi"), SizeBytes: ptr(int64(1) << 40), PhysicalBlock: ptr(4096),
		Rotational: ptr(false), Vendor: ptr("witness"), Model: ptr("witness")}}
	return f
}

func makeAccelerated(vendor, name, model, device, driver string) *world.Facts {
	f := makeMachine(2, 32, 2<<40)
	addresses := []string{"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0", "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"}
	link := world.PCIe{GTs: ptr(32.0), Width: ptr(16), MaxGTs: ptr(32.0), MaxWidth: ptr(16)}
	for i, a := range addresses {
		f.Accelerators = append(f.Accelerators, world.Accelerator{Kind: "gpu", Vendor: ptr(vendor), Name: ptr(name), Model: ptr(model), Device: ptr(device),
			NUMA: ptr(i / 4), Driver: ptr(driver), Address: ptr(a), SRIOV: world.SRIOV{TotalVFs: ptr(16), NumVFs: ptr(0)}, PCIe: link, Evidence: ptr("witness")})
		f.NICs = append(f.NICs, world.NIC{Interface: ptr("ib" + string(rune('0'+i))), Vendor: ptr("mellanox"), Model: ptr("ConnectX-7"), Device: ptr("15b3:1021"),
			SpeedGbps: ptr(400.0), Link: ptr("up"), Driver: ptr("mlx5_core"), NUMA: ptr(i / 4), Address: ptr("0001:0" + string(rune('0'+i)) + ":00.0"), SRIOV: world.SRIOV{TotalVFs: ptr(16), NumVFs: ptr(0)}, PCIe: link,
			InfiniBand: []world.InfiniBandPort{{Device: ptr("mlx5_" + string(rune('0'+i))), Port: ptr(1), LinkLayer: ptr("infiniband"), State: ptr("active"), RateGbps: ptr(400.0)}}})
	}
	return f
}

// nullFacts is a machine whose devices are there and tell nothing.
func makeNullFacts() *world.Facts {
	f := makeMachine(1, 8, 16<<30)
	f.Accelerators = []world.Accelerator{{Kind: "gpu"}}
	f.NICs = []world.NIC{{}}
	f.Interfaces = map[string]world.Interface{"eth0": {IPv4: []string{}, IPv6: []string{}}}
	f.NUMA = []world.NUMANode{{}}
	f.BIOS, f.Chassis, f.Baseboard, f.BlockDevices = world.BIOS{}, world.Chassis{}, world.Baseboard{}, []world.BlockDevice{{Name: "sda"}}
	f.Virtualization, f.MachineID, f.Product, f.OS, f.Kernel = nil, nil, world.Product{}, world.OS{IDLike: []string{}}, world.Kernel{}
	return f
}
