package boot

import (
	"fmt"

	"github.com/prelet/prelet/internal/world"
)

// Witnesses returns the sample machines that validate checks a site on: nothing known, everything failed, and five
// that are real enough to show what a site takes for granted.
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

// makeMachine returns a machine with sockets of as many cores each, without hyper-threading, and no devices. Memory
// is in bytes.
func makeMachine(sockets, cores int, memory int64) *world.Facts {
	f := &world.Facts{
		NUMA: []world.NUMANode{}, PCI: []world.PCIDevice{}, Accelerators: []world.Accelerator{}, NICs: []world.NIC{},
		Interfaces: map[string]world.Interface{}, Unknown: []world.UnknownFact{},
		Virtualization: ptr("none"), MachineID: ptr("00000000000000000000000000000001"),
	}
	addCPUs(f, sockets, cores, memory)

	f.Interfaces["eth0"] = world.Interface{
		IPv4: []string{"198.51.100.7"}, IPv6: []string{}, MAC: ptr("02:00:00:00:00:01"), MTU: ptr(1500),
	}
	f.Kernel.Release = ptr("6.1.0")
	f.OS = world.OS{
		ID: ptr("debian"), IDLike: []string{}, VersionID: ptr("12"), Name: ptr("Debian GNU/Linux 12 (bookworm)"),
	}
	f.Product = world.Product{Name: ptr("witness"), Vendor: ptr("witness")}
	f.BIOS = world.BIOS{Vendor: ptr("witness"), Version: ptr("1.0"), Date: ptr("01/31/2026")}
	f.Chassis = world.Chassis{Type: ptr("Rack mount chassis"), Vendor: ptr("witness")}
	f.Baseboard = world.Baseboard{Name: ptr("witness"), Vendor: ptr("witness")}
	f.BlockDevices = []world.BlockDevice{{
		Name: "sda", Type: ptr("ssd"), Controller: ptr("scsi"), SizeBytes: ptr(int64(1) << 40), PhysicalBlock: ptr(4096),
		Rotational: ptr(false), Vendor: ptr("witness"), Model: ptr("witness"),
	}}

	return f
}

// addCPUs adds CPUs and memory, one NUMA node for each socket.
func addCPUs(f *world.Facts, sockets, cores int, memory int64) {
	f.CPU = world.CPU{
		Vendor: ptr("GenuineIntel"), Model: ptr("witness"), Logical: ptr(sockets * cores), Cores: []world.CPUCore{},
	}
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
}

// makeAccelerated returns a machine with eight accelerators, each with an InfiniBand card.
func makeAccelerated(vendor, name, model, device, driver string) *world.Facts {
	f := makeMachine(2, 32, 2<<40)
	link := world.PCIe{GTs: ptr(32.0), Width: ptr(16), MaxGTs: ptr(32.0), MaxWidth: ptr(16)}
	sriov := world.SRIOV{TotalVFs: ptr(16), NumVFs: ptr(0)}
	for i, bus := range []string{"1b", "43", "52", "61", "9d", "c3", "d1", "df"} {
		f.Accelerators = append(f.Accelerators, world.Accelerator{
			Kind: "gpu", Vendor: ptr(vendor), Name: ptr(name), Model: ptr(model), Device: ptr(device), NUMA: ptr(i / 4),
			Driver: ptr(driver), Address: ptr("0000:" + bus + ":00.0"), SRIOV: sriov, PCIe: link, Evidence: ptr("witness"),
		})
		port := world.InfiniBandPort{
			Device: ptr(fmt.Sprintf("mlx5_%d", i)), Port: ptr(1), LinkLayer: ptr("infiniband"), State: ptr("active"),
			RateGbps: ptr(400.0),
		}
		f.NICs = append(f.NICs, world.NIC{
			Interface: ptr(fmt.Sprintf("ib%d", i)), Vendor: ptr("mellanox"), Model: ptr("ConnectX-7"),
			Device: ptr("15b3:1021"), SpeedGbps: ptr(400.0), Link: ptr("up"), Driver: ptr("mlx5_core"), NUMA: ptr(i / 4),
			Address: ptr(fmt.Sprintf("0001:0%d:00.0", i)), SRIOV: sriov, PCIe: link,
			InfiniBand: []world.InfiniBandPort{port},
		})
	}

	return f
}

// makeNullFacts returns a machine whose devices exist and have no attributes.
func makeNullFacts() *world.Facts {
	f := makeMachine(1, 8, 16<<30)
	f.Accelerators = []world.Accelerator{{Kind: "gpu"}}
	f.NICs = []world.NIC{{}}
	f.Interfaces = map[string]world.Interface{"eth0": {IPv4: []string{}, IPv6: []string{}}}
	f.NUMA = []world.NUMANode{{}}
	f.BIOS, f.Chassis, f.Baseboard = world.BIOS{}, world.Chassis{}, world.Baseboard{}
	f.BlockDevices = []world.BlockDevice{{Name: "sda"}}
	f.Virtualization, f.MachineID, f.Product = nil, nil, world.Product{}
	f.OS, f.Kernel = world.OS{IDLike: []string{}}, world.Kernel{}

	return f
}
