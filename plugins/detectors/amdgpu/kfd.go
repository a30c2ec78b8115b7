package amdgpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// nodeFolder has the compute nodes of amdkfd.
const nodeFolder = "/sys/class/kfd/kfd/topology/nodes"

// node is a compute node of a GPU, or of a partition of one.
type node struct {
	name         string // of its folder
	simds        uint64
	simdsPerUnit uint64
	gfx          uint64 // gfx_target_version
	memory       uint64 // bytes
	hive         uint64 // of GPUs that XGMI connects; 0: none
}

// readNodes returns the compute nodes of GPUs by the address of their function 0. Sources: Linux
// include/uapi/linux/kfd_sysfs.h and drivers/gpu/drm/amd/amdkfd/kfd_topology.c. location_id is bus, device and
// function as in the configuration space; the functions of partitions count up from their GPU's.
func readNodes(r sdk.Root) map[string][]node {
	nodes := map[string][]node{}
	for _, name := range r.Names(nodeFolder) {
		dir := nodeFolder + "/" + name
		p := readProperties(r, dir+"/properties")
		if p["simd_count"] == 0 { // a CPU
			continue
		}

		n := node{
			name:         name,
			simds:        p["simd_count"],
			simdsPerUnit: p["simd_per_cu"],
			gfx:          p["gfx_target_version"],
			hive:         p["hive_id"],
		}
		for _, bank := range r.Names(dir + "/mem_banks") {
			n.memory += framebuffer(readProperties(r, dir+"/mem_banks/"+bank+"/properties"))
		}
		location := p["location_id"]
		address := fmt.Sprintf(
			"%04x:%02x:%02x.0",
			p["domain"],
			location>>8&0xff,
			location>>3&0x1f,
		)
		nodes[address] = append(nodes[address], n)
	}

	return nodes
}

// hives counts the GPUs of each hive: GPUs that XGMI links connect. Ids of hives are made of serial numbers, so they
// are replaced by numbers, in the order in which they are first seen.
type hives struct {
	numbers map[uint64]int // by id
	sizes   []int          // GPUs, by number
}

// add counts a GPU, and returns the number of its hive. It is false for a GPU without one.
func (h *hives) add(id uint64) (number int, hasHive bool) {
	if id == 0 {
		return 0, false
	}

	number, isKnown := h.numbers[id]
	if !isKnown {
		number = len(h.sizes)
		h.numbers[id] = number
		h.sizes = append(h.sizes, 0)
	}
	h.sizes[number]++

	return number, true
}

// framebuffer returns the size of a memory bank in the framebuffer, public (1) or private (2), or 0.
func framebuffer(bank map[string]uint64) uint64 {
	size := bank["size_in_bytes"]
	isFramebuffer := bank["heap_type"] == 1 || bank["heap_type"] == 2
	if !isFramebuffer || size >= 1<<50 {
		return 0
	}

	return size
}

// target returns the compiler's name of a GPU: 90402 is gfx942, 90010 gfx90a, 110001 gfx1101.
func (n node) target() string {
	if n.gfx == 0 || n.gfx > 990000 {
		return ""
	}

	return fmt.Sprintf("gfx%d%x%x", n.gfx/10000, n.gfx/100%100, n.gfx%100)
}

// readProperties returns the lines "key value" of a file.
func readProperties(r sdk.Root, file string) map[string]uint64 {
	out := map[string]uint64{}
	text, err := r.Text(file)
	if err != nil {
		return out
	}
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(v, 10, 64); err == nil {
			out[k] = n
		}
	}

	return out
}
