// Package amdgpu is the detector of AMD's GPUs: memory, compute units, target, partitions and XGMI hives, as the
// kernel's drivers amdgpu and amdkfd show them in sysfs. It needs no grant.
package amdgpu

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/sdk"
)

//go:embed products.txt
var products string

var (
	targets = sdk.Fact[map[string]int]{
		Name: "targets",
		Doc:  "How many GPUs there are of each target that code is compiled for: { gfx942 = 8 }.",
	}
	modes = sdk.Fact[map[string]int]{
		Name: "compute_partitions",
		Doc:  "How many GPUs are in each compute partition mode: { SPX = 8 }.",
	}
	driver = sdk.Fact[string]{
		Name: "driver_version",
		Doc:  "Version of amdgpu from AMD's package. The kernel's own driver has none.",
	}
	nodes = sdk.Fact[int]{
		Name: "kfd_nodes",
		Doc:  "How many GPUs ROCm sees. Each partition is one.",
	}
	xgmiHives = sdk.Fact[[]int]{
		Name: "xgmi_hives",
		Doc: "How many GPUs each XGMI hive has, in the order of PCI addresses: [8] if all eight are connected. " +
			"GPUs without a hive do not count.",
	}
)

// Domain is the domain of the recommended labels, which have the names of AMD's node labeller.
const Domain = "amd.com"

// New declares the detector of a version.
func New(version string) sdk.Detector {
	return sdk.Detector{
		Name:    "amd-gpu",
		Version: version,
		Vendor:  "prelet",
		Doc:     "AMD GPUs: memory, compute units, target, partitions, XGMI hives.",
		Facts: []sdk.Declaration{
			targets, modes, driver, nodes, xgmiHives, uncorrectedErrors, badPages, badPagesPending,
		},
		Domains: []string{Domain},
		// Class 12: Instinct from MI300 on. 0380: older Instinct. 0300: with a display.
		Match:  sdk.Match{PCIIDs: []string{"1002:*:12", "1002:*:0380", "1002:*:0300"}},
		Detect: detect,
	}
}

func detect(m *sdk.Machine) error {
	byAddress := readNodes(m.Root)
	seen := 0
	for _, list := range byAddress {
		seen += len(list)
	}

	countTargets := map[string]int{}
	countModes := map[string]int{}
	countHives := hives{numbers: map[uint64]int{}, sizes: []int{}}
	var ras health
	var labels map[string]string
	for _, gpu := range m.Devices {
		readGPU(m.Root, gpu)
		ras.add(m.Root, gpu)
		list := byAddress[gpu.Address]
		addNodes(gpu, list)
		if len(list) > 0 {
			addHive(gpu, list[0], &countHives)
		}
		m.Add(gpu)
		count(countTargets, gpu.Attributes["target"])
		count(countModes, gpu.Attributes["compute_partition"])
		labels = commonLabels(labels, labelsOf(gpu))
	}
	m.AddFacts(
		nodes.Is(seen, nodeFolder),
		targets.Is(countTargets, nodeFolder),
		modes.Is(countModes, "current_compute_partition"),
	)
	if seen > 0 {
		m.AddFacts(xgmiHives.Is(countHives.sizes, nodeFolder))
	} else {
		m.AddFacts(xgmiHives.Unknown("no GPU has a compute node"))
	}
	reportDriver(m)
	ras.report(m)
	if len(m.Devices) > 0 && seen == 0 {
		m.Warn("no GPU has a compute node, so memory and targets are unknown: " +
			"amdgpu is not loaded, or was built without KFD")
	}

	for name, value := range labels {
		m.Recommend(
			Domain+"/"+name,
			value,
			fmt.Sprintf("the same for all GPUs (%d)", len(m.Devices)),
		)
	}

	return nil
}

// count counts a value. An empty value is unknown.
func count(m map[string]int, value string) {
	if value != "" {
		m[value]++
	}
}

func reportDriver(m *sdk.Machine) {
	const file = "/sys/module/amdgpu/version"
	version, _ := m.Text(file) // without it, there is none
	m.AddFacts(devices.TextFact(driver, version, file, "amdgpu is the kernel's own, or not loaded"))
	m.Recommend(Domain+"/gpu.driver-version", version, file)
}

// readGPU reads the files of amdgpu in the folder of a PCI function.
func readGPU(r sdk.Root, gpu *sdk.Device) {
	gpu.Kind, gpu.Vendor = "gpu", "amd"

	// Newer boards store their name.
	evidence := gpu.Path("product_name")
	name, err := r.Text(evidence)
	if known := devices.LookUp(products, gpu.PCI.Device); (err != nil || name == "") && known != "" {
		name = "AMD " + known
		evidence = "PCI device 1002:" + gpu.PCI.Device
	}
	gpu.SetName(name, evidence)

	file := gpu.Path("mem_info_vram_total")
	if n, err := r.Int(file); err == nil && n > 0 {
		gpu.SetMemory(uint64(n), file)
	}
	gpu.ReadOptional("compute_partition", "current_compute_partition")
	gpu.ReadOptional("memory_partition", "current_memory_partition")
	gpu.ReadOptional("vbios", "vbios_version")
	gpu.ReadSRIOV()
}

// addNodes adds the compute nodes of a function. A function with partitions has several.
func addNodes(gpu *sdk.Device, list []node) {
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
	dir := nodeFolder + "/" + list[0].name
	if gpu.MemoryBytes == 0 {
		gpu.SetMemory(memory, dir+"/mem_banks")
	}
	gpu.SetAttribute("target", list[0].target(), dir+"/properties")
	if units > 0 {
		gpu.SetAttribute("compute_units", strconv.FormatUint(units, 10), dir+"/properties")
	}
	gpu.SetAttribute("simds", strconv.FormatUint(simds, 10), dir+"/properties")
	if len(list) > 1 {
		gpu.SetAttribute("partitions", strconv.Itoa(len(list)), dir+"/properties")
	}
}

// addHive adds the number of a GPU's hive. The partitions of a GPU are in the same hive.
func addHive(gpu *sdk.Device, n node, h *hives) {
	number, hasHive := h.add(n.hive)
	if hasHive {
		gpu.SetAttribute("xgmi_hive", strconv.Itoa(number), nodeFolder+"/"+n.name+"/properties")
	}
}

// labelsOf returns the labels of one GPU, by name without the domain. Those with an empty value are not recommended.
func labelsOf(gpu *sdk.Device) map[string]string {
	labels := map[string]string{
		"gpu.device-id":    gpu.PCI.Device,
		"gpu.cu-count":     gpu.Attributes["compute_units"],
		"gpu.simd-count":   gpu.Attributes["simds"],
		"gpu.product-name": gpu.Model,
	}
	if gpu.MemoryBytes > 0 { // rounded: the driver keeps a part
		labels["gpu.vram"] = fmt.Sprintf("%dG", (gpu.MemoryBytes+(1<<29))>>30)
	}

	return labels
}

// commonLabels returns the labels that both have in common. Nil labels mean no GPU.
func commonLabels(common, labels map[string]string) map[string]string {
	if common == nil {
		return labels
	}
	for name, value := range common {
		if labels[name] != value {
			delete(common, name)
		}
	}

	return common
}
