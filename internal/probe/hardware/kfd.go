package hardware

import (
	"strconv"
	"strings"
	"sync"
)

const kfdNodes = "sys/class/kfd/kfd/topology/nodes"

// lazyKFD reads the memory of AMD's GPUs from the topology of the kernel's compute driver, once and only when asked:
// bytes by PCI address, function 0. A GPU cut into partitions is several nodes, each a function of one address; their memory
// adds up.
// Source: Linux include/uapi/linux/kfd_sysfs.h; location_id is bus, device and function as in the configuration space.
func (d *detection) lazyKFD() func() map[pciAddress]int64 {
	return sync.OnceValue(func() map[pciAddress]int64 {
		memory, seen := map[pciAddress]int64{}, map[pciAddress]bool{}
		nodes, _ := d.names(kfdNodes)
		for _, node := range nodes {
			at, ok := d.kfdAddress(kfdNodes + "/" + node)
			if !ok || seen[at] {
				continue
			}
			seen[at] = true
			at.function = 0
			banks, _ := d.names(kfdNodes + "/" + node + "/mem_banks")
			for _, bank := range banks {
				p := d.properties(kfdNodes + "/" + node + "/mem_banks/" + bank + "/properties")
				// Types 1 and 2 are the framebuffer, visible to the CPU or not; others are system memory and scratch.
				if heap := p["heap_type"]; (heap == 1 || heap == 2) && p["size_in_bytes"] < 1<<50 {
					memory[at] += int64(p["size_in_bytes"])
				}
			}
		}
		return memory
	})
}

// kfdAddress is false for a node that has no shader: a CPU.
func (d *detection) kfdAddress(folder string) (pciAddress, bool) {
	p := d.properties(folder + "/properties")
	if p["simd_count"] == 0 {
		return pciAddress{}, false
	}
	location := p["location_id"]
	return pciAddress{domain: p["domain"], bus: location >> 8 & 0xff, device: location >> 3 & 0x1f, function: location & 7}, true
}

// properties reads lines "key value".
func (d *detection) properties(name string) map[string]uint64 {
	values := map[string]uint64{}
	data, err := d.ReadFile(name, 2*sysfsLimit)
	if err != nil {
		return values
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			values[key] = n
		}
	}
	return values
}
