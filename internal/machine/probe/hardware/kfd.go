package hardware

import (
	"fmt"
	"strconv"
	"strings"
)

const kfdNodes = "sys/class/kfd/kfd/topology/nodes"

// readKFD reads the memory of AMD's GPUs from the topology of the kernel's compute driver: bytes by PCI address
// without the function. A GPU in partitions has several nodes, each a function of one address; their memory is added
// up.
// Source: Linux include/uapi/linux/kfd_sysfs.h; location_id is bus, device and function as in the configuration
// space.
func (d *detection) readKFD() map[string]int64 {
	memory := map[string]int64{}
	seen := map[string]bool{}

	nodes, _ := d.list(kfdNodes)
	for _, node := range nodes {
		address, isGPU := d.kfdAddress(kfdNodes + "/" + node)
		if !isGPU || seen[address] {
			continue
		}

		seen[address] = true
		memory[withoutFunction(address)] += d.sumBanks(kfdNodes + "/" + node + "/mem_banks")
	}

	return memory
}

// withoutFunction returns 0000:1b:00 of 0000:1b:00.0.
func withoutFunction(address string) string {
	device, _, _ := strings.Cut(address, ".")
	return device
}

// sumBanks adds up the memory of a GPU's banks.
func (d *detection) sumBanks(folder string) int64 {
	var sum int64

	banks, _ := d.list(folder)
	for _, bank := range banks {
		p := d.readProperties(folder + "/" + bank + "/properties")

		// Types 1 and 2 are the framebuffer, visible to the CPU or not; others are system memory and scratch.
		isFramebuffer := p["heap_type"] == 1 || p["heap_type"] == 2
		if isFramebuffer && p["size_in_bytes"] < 1<<50 {
			sum += int64(p["size_in_bytes"])
		}
	}

	return sum
}

// kfdAddress returns the address of a node; isGPU is false for a node without a shader, which is a CPU.
func (d *detection) kfdAddress(folder string) (address string, isGPU bool) {
	p := d.readProperties(folder + "/properties")
	location := p["location_id"]

	address = fmt.Sprintf(
		"%04x:%02x:%02x.%x",
		p["domain"],
		location>>8&0xff,
		location>>3&0x1f,
		location&7,
	)

	return address, p["simd_count"] > 0
}

// readProperties reads lines "key value".
func (d *detection) readProperties(name string) map[string]uint64 {
	values := map[string]uint64{}

	data, _ := d.ReadFile(name, 2*sysfsLimit)
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			values[key] = n
		}
	}

	return values
}
