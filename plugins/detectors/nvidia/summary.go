package nvidia

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// summary collects values that all GPUs share.
type summary struct {
	found    int
	known    []gpu // in NVML
	names    map[string]int
	profiles map[string]int // of MIG devices
	vgpus    map[string]int // virtual functions, by the type of vGPU that is set
	memory   map[uint64]bool

	isMIG      bool   // a GPU is in MIG mode
	unknownMIG string // why it is not known of each GPU
}

// newSummary returns an empty one. unknown is why NVML does not answer for each GPU.
func newSummary(unknown string) *summary {
	return &summary{
		names:      map[string]int{},
		profiles:   map[string]int{},
		vgpus:      map[string]int{},
		memory:     map[uint64]bool{},
		unknownMIG: unknown,
	}
}

// add adds a GPU. NVML's result may be empty.
func (s *summary) add(x *sdk.Device, g gpu) {
	s.found++
	if x.Name != "" {
		s.names[x.Name]++
	}
	if g.memory > 0 {
		s.memory[g.memory] = true
	}
	for _, profile := range g.migDevices {
		s.profiles[profile]++
	}

	if g.mig == "enabled" || g.mig == "" && x.Attributes["mig_gpu_instances"] != "" {
		s.isMIG = true
	}
	if g.whyNoMIG != "" {
		s.unknownMIG = cmp.Or(s.unknownMIG, x.Address+": "+g.whyNoMIG)
	}
}

// addVirtual adds a virtual function. Its file has the type of vGPU that is set, 0 for none. Without it the driver
// makes vGPUs as mediated devices, or none. Source: Virtual GPU Software User Guide, "vendor-specific VFIO framework".
func (s *summary) addVirtual(r sdk.Root, x *sdk.Device) {
	file := x.Path("nvidia/current_vgpu_type")
	number, err := r.Int(file)
	if err != nil || number <= 0 {
		return
	}

	name := strconv.FormatInt(number, 10)
	x.SetAttribute("vgpu_type", name, file)
	s.vgpus[name]++
}

func (s *summary) report(m *sdk.Machine) {
	m.AddFacts(
		products.Is(s.names, "/proc/driver/nvidia/gpus"),
		vgpuTypes.Is(s.vgpus, "current_vgpu_type of virtual functions"),
	)
	if s.isMIG || s.unknownMIG == "" {
		m.AddFacts(migEnabled.Is(s.isMIG, "nvml, /proc/driver/nvidia/capabilities"))
	} else {
		m.AddFacts(migEnabled.Unknown(s.unknownMIG))
	}
	if s.unknownMIG == "" {
		m.AddFacts(migDevices.Is(s.profiles, "nvml"))
	} else {
		m.AddFacts(migDevices.Unknown(s.unknownMIG))
	}
}

// recommend adds labels. A label about one kind of GPU is correct only if all GPUs are of that kind.
func (s *summary) recommend(m *sdk.Machine) {
	if s.found == 0 {
		return
	}
	add := func(name, value, evidence string) {
		m.Recommend(Domain+"/"+name, value, evidence)
	}
	add("gpu.count", strconv.Itoa(s.found), "PCI functions of class 03")
	if len(s.names) > 1 {
		m.Warn("this machine has GPUs of %d kinds: labels about one kind are not recommended", len(s.names))
		return
	}
	for name, n := range s.names {
		add("gpu.product", name, fmt.Sprintf("the name of all GPUs that have one (%d)", n))
	}

	if len(s.known) == 0 {
		return
	}
	first := s.known[0]
	if len(s.memory) == 1 {
		add("gpu.memory", strconv.FormatUint(first.memory>>20, 10), "nvml, in MiB")
	}
	add("gpu.family", first.family, "nvml")
	if major, minor, isVersion := strings.Cut(first.compute, "."); isVersion {
		add("gpu.compute.major", major, "nvml")
		add("gpu.compute.minor", minor, "nvml")
	}
	if first.whyNoMIG == "" {
		add("mig.capable", strconv.FormatBool(first.mig != ""), "nvml")
	}
}
