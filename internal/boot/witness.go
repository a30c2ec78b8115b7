package boot

import "github.com/prelet/prelet/internal/world"

// Witnesses are the machines that validate tries a site on: nothing known, everything failed, and five that are
// real enough to show what a site takes for granted.
func Witnesses() []Witness {
	return []Witness{
		{Name: "unknown"},
		{Name: "all failed", Fails: true},
		{Name: "bare VM", Facts: bareVM()},
		{Name: "null facts", Facts: nullFacts()},
		{Name: "8×H100", Facts: accelerated("nvidia", "NVIDIA H100 80GB HBM3", "H100 80GB HBM3", "10de:2330", "nvidia")},
		{Name: "8×MI300X", Facts: accelerated("amd", "AMD Instinct MI300X", "Instinct MI300X", "1002:74a1", "amdgpu")},
		{Name: "two sockets", Facts: machine(2, 32, 256<<30)},
	}
}

func p[T any](v T) *T { return &v }

func bareVM() *world.Facts {
	f := machine(1, 2, 4<<30)
	f.Virtualization = p("kvm")
	return f
}

// machine has sockets with as many cores each, without hyper-threading, and no devices.
func machine(sockets, cores int, memory int64) *world.Facts {
	f := &world.Facts{NUMA: []world.NUMANode{}, PCI: []world.PCIDevice{}, Accelerators: []world.Accelerator{}, NICs: []world.NIC{},
		Interfaces: map[string]world.Interface{}, Unknown: []world.UnknownFact{},
		Virtualization: p("none"), MachineID: p("00000000000000000000000000000001")}
	f.CPU = world.CPU{Vendor: p("GenuineIntel"), Model: p("witness"), Logical: p(sockets * cores), Cores: []world.CPUCore{}}
	f.Memory = world.Memory{TotalBytes: p(memory), HugePages: map[string]int{}}
	for s := range sockets {
		n := world.NUMANode{ID: s, MemoryBytes: p(memory / int64(sockets)), HugePages: map[string]int{}}
		for c := range cores {
			id := s*cores + c
			n.CPUs = append(n.CPUs, id)
			f.CPU.Cores = append(f.CPU.Cores, world.CPUCore{Node: p(s), Package: p(s), CPUs: []int{id}})
		}
		f.NUMA = append(f.NUMA, n)
	}
	f.Interfaces["eth0"] = world.Interface{IPv4: []string{"198.51.100.7"}, IPv6: []string{}, MAC: p("02:00:00:00:00:01"), MTU: p(1500)}
	f.Kernel.Release = p("6.1.0")
	f.OS = world.OS{ID: p("debian"), IDLike: []string{}, VersionID: p("12"), Name: p("Debian GNU/Linux 12 (bookworm)")}
	f.Product = world.Product{Name: p("witness"), Vendor: p("witness")}
	f.BIOS = world.BIOS{Vendor: p("witness"), Version: p("1.0"), Date: p("01/31/2026")}
	f.Chassis = world.Chassis{Type: p("Rack mount chassis"), Vendor: p("witness")}
	f.Baseboard = world.Baseboard{Name: p("witness"), Vendor: p("witness")}
	f.BlockDevices = []world.BlockDevice{{Name: "sda", Type: p("ssd"), Controller: p("scsi"), SizeBytes: p(int64(1) << 40), PhysicalBlock: p(4096),
		Rotational: p(false), Vendor: p("witness"), Model: p("witness")}}
	return f
}

func accelerated(vendor, name, model, device, driver string) *world.Facts {
	f := machine(2, 32, 2<<40)
	addresses := []string{"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0", "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"}
	link := world.PCIe{GTs: p(32.0), Width: p(16), MaxGTs: p(32.0), MaxWidth: p(16)}
	for i, a := range addresses {
		f.Accelerators = append(f.Accelerators, world.Accelerator{Kind: "gpu", Vendor: p(vendor), Name: p(name), Model: p(model), Device: p(device),
			NUMA: p(i / 4), Driver: p(driver), Address: p(a), SRIOV: world.SRIOV{TotalVFs: p(16), NumVFs: p(0)}, PCIe: link, Evidence: p("witness")})
		f.NICs = append(f.NICs, world.NIC{Interface: p("ib" + string(rune('0'+i))), Vendor: p("mellanox"), Model: p("ConnectX-7"), Device: p("15b3:1021"),
			SpeedGbps: p(400.0), Link: p("up"), Driver: p("mlx5_core"), NUMA: p(i / 4), Address: p("0001:0" + string(rune('0'+i)) + ":00.0"), SRIOV: world.SRIOV{TotalVFs: p(16), NumVFs: p(0)}, PCIe: link,
			InfiniBand: []world.InfiniBandPort{{Device: p("mlx5_" + string(rune('0'+i))), Port: p(1), LinkLayer: p("infiniband"), State: p("active"), RateGbps: p(400.0)}}})
	}
	return f
}

// nullFacts is a machine whose devices are there and tell nothing.
func nullFacts() *world.Facts {
	f := machine(1, 8, 16<<30)
	f.Accelerators = []world.Accelerator{{Kind: "gpu"}}
	f.NICs = []world.NIC{{}}
	f.Interfaces = map[string]world.Interface{"eth0": {IPv4: []string{}, IPv6: []string{}}}
	f.NUMA = []world.NUMANode{{}}
	f.BIOS, f.Chassis, f.Baseboard, f.BlockDevices = world.BIOS{}, world.Chassis{}, world.Baseboard{}, []world.BlockDevice{{Name: "sda"}}
	f.Virtualization, f.MachineID, f.Product, f.OS, f.Kernel = nil, nil, world.Product{}, world.OS{IDLike: []string{}}, world.Kernel{}
	return f
}
