package boot

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/world"
)

// SampleMachine is a machine that a site is checked on instead of a real one.
type SampleMachine struct {
	Name  string
	Facts *world.Facts // nil: unknown
	Fails bool         // every stage that may fail does
}

// SampleMachines returns the machines that validate checks a site on: one of which nothing is known, one on which
// every read fails, and five with facts that show the assumptions of a site.
func SampleMachines() []SampleMachine {
	s := parseSamples()

	return []SampleMachine{
		{Name: "unknown"},
		{Name: "all failed", Fails: true},
		{Name: "bare VM", Facts: makeBareVM()},
		{Name: "null facts", Facts: makeNullFacts()},
		{Name: "8×H100", Facts: makeAccelerated(s.H100, s.NIC)},
		{Name: "8×MI300X", Facts: makeAccelerated(s.MI300X, s.NIC)},
		{Name: "two sockets", Facts: makeTwoSockets(s.Ethernet, s.Runtime)},
	}
}

//go:embed samples.json
var samplesText []byte

// samples has the facts that sample machines have in common, in the form of a recording. Names are as real vendors
// write them: with spaces and parentheses, empty, and longer than a label.
type samples struct {
	Machine      world.Facts // without CPUs, NUMA nodes and the size of the memory
	H100, MI300X world.Accelerator
	NIC          world.NIC // with one port
	Ethernet     world.NIC // with a name as the list of PCI names has it
	// Runtime is that of Debian 12. It has no cgroup driver, which would contradict sites of machines with another one.
	Runtime world.Runtime
}

func parseSamples() (s samples) {
	if err := json.Unmarshal(samplesText, &s); err != nil {
		panic(fmt.Sprintf("samples.json: %s", err))
	}

	return s
}

func makeBareVM() *world.Facts {
	f := makeMachine(1, 2, 4<<30)
	f.Virtualization = new("kvm")
	f.Product.Name = new("Standard PC (Q35 + ICH9, 2009)")
	f.Product.Vendor = new("QEMU")

	return f
}

func makeTwoSockets(ethernet world.NIC, runtime world.Runtime) *world.Facts {
	f := makeMachine(2, 32, 256<<30)
	f.Runtime = runtime
	f.Kernel.Release = new("6.1.112+") // of Container-Optimized OS
	f.NICs = append(f.NICs, ethernet)

	return f
}

// makeMachine returns a machine without devices. Each socket has that many cores and is one NUMA node. Memory is in
// bytes.
func makeMachine(sockets, cores int, memory int64) *world.Facts {
	f := parseSamples().Machine
	f.CPU.Logical = new(sockets * cores)
	f.Memory.TotalBytes = &memory
	for socket := range sockets {
		n := world.NUMANode{
			ID:          socket,
			MemoryBytes: new(memory / int64(sockets)),
			HugePages:   map[string]int{},
		}
		for core := range cores {
			id := socket*cores + core
			n.CPUs = append(n.CPUs, id)
			f.CPU.Cores = append(f.CPU.Cores, world.CPUCore{
				Node:    &socket,
				Package: &socket,
				CPUs:    []int{id},
			})
		}
		f.NUMA = append(f.NUMA, n)
	}

	return &f
}

// makeAccelerated returns a machine with two sockets and eight accelerators, each with an InfiniBand card.
func makeAccelerated(gpu world.Accelerator, nic world.NIC) *world.Facts {
	f := makeMachine(2, 32, 2<<40)
	f.Product.Name = new("DGXH100")
	for i := range 8 {
		gpu.NUMA = new(i / 4)
		gpu.Address = new(fmt.Sprintf("0000:%d1:00.0", i+1))
		f.Accelerators = append(f.Accelerators, gpu)

		nic.NUMA = gpu.NUMA
		nic.Interface = new(fmt.Sprintf("ib%d", i))
		nic.Address = new(fmt.Sprintf("0001:0%d:00.0", i))
		nic.InfiniBand = slices.Clone(nic.InfiniBand)
		nic.InfiniBand[0].Device = new(fmt.Sprintf("mlx5_%d", i))
		f.NICs = append(f.NICs, nic)
	}

	return f
}

// makeNullFacts returns a machine whose devices exist and have no attributes.
func makeNullFacts() *world.Facts {
	f := makeMachine(1, 8, 16<<30)

	return &world.Facts{
		CPU:          f.CPU,
		Memory:       f.Memory,
		PCI:          f.PCI,
		Unknown:      f.Unknown,
		Accelerators: []world.Accelerator{{Kind: "gpu"}},
		NICs:         []world.NIC{{}},
		Interfaces: map[string]world.Interface{
			"eth0": {IPv4: []string{}, IPv6: []string{}},
		},
		NUMA:         []world.NUMANode{{}},
		BlockDevices: []world.BlockDevice{{Name: "sda"}},
		OS:           world.OS{IDLike: []string{}},
	}
}
