package amdgpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// folder is where amdkfd shows its compute nodes.
const folder = "/sys/class/kfd/kfd/topology/nodes"

// node is one compute node that is a GPU, or a partition of one.
type node struct {
	name                string // of its folder
	simds, simdsPerUnit uint64
	gfx                 uint64
	memory              uint64 // bytes
}

// topology returns the GPUs among the nodes, by the address of their function 0. Source: Linux
// include/uapi/linux/kfd_sysfs.h and drivers/gpu/drm/amd/amdkfd/kfd_topology.c; location_id is bus, device and function as
// in the configuration space, and a partition's function counts up from its GPU's.
func topology(r sdk.Root) map[string][]node {
	out := map[string][]node{}
	for _, name := range r.Names(folder) {
		dir := folder + "/" + name
		p := properties(r, dir+"/properties")
		if p["simd_count"] == 0 { // a CPU
			continue
		}
		at := p["location_id"]
		address := fmt.Sprintf("%04x:%02x:%02x.0", p["domain"], at>>8&0xff, at>>3&0x1f)
		n := node{name: name, simds: p["simd_count"], simdsPerUnit: p["simd_per_cu"], gfx: p["gfx_target_version"]}
		for _, bank := range r.Names(dir + "/mem_banks") {
			b := properties(r, dir+"/mem_banks/"+bank+"/properties")
			// 1 and 2 are the framebuffer, seen by the CPU or not; others are system memory and scratch.
			if (b["heap_type"] == 1 || b["heap_type"] == 2) && b["size_in_bytes"] < 1<<50 {
				n.memory += b["size_in_bytes"]
			}
		}
		out[address] = append(out[address], n)
	}
	return out
}

// target returns the name that compilers have for a GPU: 90402 is gfx942, 90010 gfx90a, 110001 gfx1101.
func (n node) target() string {
	if n.gfx == 0 || n.gfx > 990000 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", n.gfx/10000, n.gfx/100%100, n.gfx%100)
}

// properties reads lines "key value".
func properties(r sdk.Root, file string) map[string]uint64 {
	out := map[string]uint64{}
	b, err := r.Read(file)
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(v, 10, 64); err == nil {
			out[k] = n
		}
	}
	return out
}
