// Package amdgpu is the detector of AMD's GPUs, by what the kernel's drivers amdgpu and amdkfd show in sysfs: memory,
// compute units, target, partitions. It asks nothing of the site.
package amdgpu

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// Detector implements sdk.Detector.
type Detector struct{ Version string }

var (
	targets = sdk.Fact[map[string]int]{Name: "targets", Doc: "How many GPUs there are of each target that code is compiled for: { gfx942 = 8 }."}
	modes   = sdk.Fact[map[string]int]{Name: "compute_partitions", Doc: "How many GPUs are in each compute partition mode: { SPX = 8 }."}
	driver  = sdk.Fact[string]{Name: "driver_version", Doc: "Of amdgpu, where it is AMD's own package; the kernel's has none."}
	nodes   = sdk.Fact[int]{Name: "kfd_nodes", Doc: "How many GPUs ROCm sees: each partition is one."}
)

// Domain is of the labels that are recommended, with the names of AMD's node labeller.
const Domain = "amd.com"

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	return sdk.Description{
		Name: "amd-gpu", Version: d.Version, Vendor: "prelet",
		Doc:     "AMD GPUs: memory, compute units, target, partitions.",
		Facts:   []sdk.Declaration{targets, modes, driver, nodes},
		Domains: []string{Domain},
		// 12: Instinct from MI300 on. 0380: Instinct before. 0300: with a display.
		Match: sdk.Match{PCIIDs: []string{"1002:*:12", "1002:*:0380", "1002:*:0300"}},
	}
}

// Detect implements sdk.Detector.
func (d Detector) Detect(_ context.Context, r sdk.Request, a *sdk.Answer) error {
	kfd := topology(r.Root)
	t := tally{targets: map[string]int{}, modes: map[string]int{}, same: map[string]string{}}
	for _, p := range r.Devices {
		x := card(r.Root, p)
		compute(&x, kfd[p.Address])
		t.add(p, x)
		a.Add(x)
	}
	seen := 0
	for _, list := range kfd {
		seen += len(list)
	}
	a.Tell(nodes.Is(seen, folder), targets.Is(t.targets, folder), modes.Is(t.modes, "current_compute_partition"))
	const file = "/sys/module/amdgpu/version"
	if v, err := r.Root.Text(file); err == nil && v != "" {
		a.Tell(driver.Is(v, file))
		a.Recommend(Domain+"/gpu.driver-version", sdk.LabelValue(v), file)
	} else {
		a.Tell(driver.Unknown("amdgpu is the kernel's own, or not loaded"))
	}
	if t.found > 0 && seen == 0 {
		a.Warn("no GPU has a compute node: amdgpu is not loaded, or built without KFD; memory and targets are unknown")
	}
	t.recommend(a)
	return nil
}

// card reads what amdgpu shows at the PCI function.
func card(r sdk.Root, p sdk.PCIDevice) sdk.Device {
	dir := "/sys/bus/pci/devices/" + p.Address + "/"
	x := sdk.Device{Address: p.Address, Kind: new("gpu"), Vendor: new("amd"), NUMA: p.NUMA, Attributes: map[string]string{}, Evidence: map[string]string{}}
	if p.Driver != "" {
		x.Driver = new(p.Driver)
	}
	// The board's own memory of what it is; older boards have none, and a table does.
	if name, err := r.Text(dir + "product_name"); err == nil && name != "" {
		named(&x, name, dir+"product_name")
	} else if name := products()[p.Device]; name != "" {
		named(&x, "AMD "+name, "PCI device 1002:"+p.Device)
	}
	if n, err := r.Int(dir + "mem_info_vram_total"); err == nil && n > 0 {
		x.MemoryBytes, x.Evidence["memory_bytes"] = new(uint64(n)), dir+"mem_info_vram_total"
	}
	for attribute, file := range map[string]string{"compute_partition": "current_compute_partition", "memory_partition": "current_memory_partition", "vbios": "vbios_version"} {
		if s, err := r.Text(dir + file); err == nil && s != "" {
			x.Attributes[attribute], x.Evidence["attributes."+attribute] = s, dir+file
		}
	}
	if n, err := r.Int(dir + "sriov_totalvfs"); err == nil && n >= 0 {
		x.SRIOVTotalVFs, x.Evidence["sriov_total_vfs"] = new(int(n)), dir+"sriov_totalvfs"
		if n, err := r.Int(dir + "sriov_numvfs"); err == nil && n >= 0 {
			x.SRIOVNumVFs, x.Evidence["sriov_num_vfs"] = new(int(n)), dir+"sriov_numvfs"
		}
	}
	return x
}

func named(x *sdk.Device, name, evidence string) {
	x.Name, x.Model = new(name), new(strings.TrimPrefix(name, "AMD "))
	x.Evidence["name"], x.Evidence["model"] = evidence, evidence
}

// compute adds what the compute nodes of a function say. One that is cut into partitions has several.
func compute(x *sdk.Device, list []node) {
	if len(list) == 0 {
		return
	}
	var memory, units, simds uint64
	for _, n := range list {
		memory += n.memory
		simds += n.simds
		if n.simdsPerUnit > 0 {
			units += n.simds / n.simdsPerUnit
		}
	}
	at := func(what string) string { return folder + "/" + list[0].name + "/" + what }
	if x.MemoryBytes == nil && memory > 0 {
		x.MemoryBytes, x.Evidence["memory_bytes"] = new(memory), at("mem_banks")
	}
	say := func(name, value string) {
		x.Attributes[name], x.Evidence["attributes."+name] = value, at("properties")
	}
	if t := list[0].target(); t != "" {
		say("target", t)
	}
	if units > 0 {
		say("compute_units", strconv.FormatUint(units, 10))
	}
	say("simds", strconv.FormatUint(simds, 10))
	if len(list) > 1 {
		say("partitions", strconv.Itoa(len(list)))
	}
}

// tally is what is true of all GPUs together.
type tally struct {
	targets map[string]int
	modes   map[string]int
	found   int
	same    map[string]string // labels; empty where GPUs differ
}

func (t *tally) add(p sdk.PCIDevice, x sdk.Device) {
	t.found++
	count := func(m map[string]int, attribute string) {
		if v := x.Attributes[attribute]; v != "" {
			m[v]++
		}
	}
	count(t.targets, "target")
	count(t.modes, "compute_partition")
	labels := map[string]string{"gpu.device-id": p.Device, "gpu.cu-count": x.Attributes["compute_units"], "gpu.simd-count": x.Attributes["simds"]}
	if x.Model != nil {
		labels["gpu.product-name"] = sdk.LabelValue(*x.Model)
	}
	if x.MemoryBytes != nil {
		labels["gpu.vram"] = fmt.Sprintf("%dG", (*x.MemoryBytes+(1<<29))>>30) // of 192 GiB the driver keeps some
	}
	for _, k := range []string{"gpu.device-id", "gpu.cu-count", "gpu.simd-count", "gpu.product-name", "gpu.vram"} {
		if before, ok := t.same[k]; ok && before != labels[k] {
			labels[k] = ""
		}
		t.same[k] = labels[k]
	}
}

// recommend recommends labels of what all GPUs are.
func (t *tally) recommend(a *sdk.Answer) {
	evidence := "of the only GPU"
	if t.found > 1 {
		evidence = fmt.Sprintf("the same of all %d GPUs", t.found)
	}
	for k, v := range t.same {
		if v != "" {
			a.Recommend(Domain+"/"+k, v, evidence)
		}
	}
}

// products returns names by device id, of the PCI ID database of 2026-10-24.
func products() map[string]string {
	return map[string]string{
		"738c": "Instinct MI100", "738e": "Instinct MI100", "7408": "Instinct MI250X", "740c": "Instinct MI250X/MI250", "740f": "Instinct MI210",
		"74a0": "Instinct MI300A", "74a1": "Instinct MI300X", "74a2": "Instinct MI308X", "74a5": "Instinct MI325X", "74a9": "Instinct MI300X HF",
		"74b5": "Instinct MI300X VF", "74b9": "Instinct MI325X VF", "74bd": "Instinct MI300X HF", "75a0": "Instinct MI350X", "75a3": "Instinct MI355X", "75a8": "Instinct MI350P",
	}
}
