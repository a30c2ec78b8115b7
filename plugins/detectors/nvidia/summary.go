package nvidia

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

// summary collects values that all GPUs share.
type summary struct {
	found    int
	known    []gpu  // in NVML
	unknown  string // why NVML returned nothing
	names    map[string]int
	profiles map[string]int // of MIG devices
	vgpus    map[string]int // virtual functions, by the type of vGPU that is set
	memory   map[uint64]bool
	isMIG    *bool // whether any GPU is in MIG mode; nil: unknown
}

func newSummary(unknown string) *summary {
	return &summary{
		unknown:  unknown,
		names:    map[string]int{},
		profiles: map[string]int{},
		vgpus:    map[string]int{},
		memory:   map[uint64]bool{},
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

	switch {
	case g.mig == "enabled", g.mig == "" && x.Attributes["mig_gpu_instances"] != "":
		s.isMIG = new(true)
	case g.mig != "" && s.isMIG == nil:
		s.isMIG = new(false)
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

// report adds facts.
func (s *summary) report(m *sdk.Machine) {
	m.AddFacts(
		products.Is(s.names, "/proc/driver/nvidia/gpus"),
		vgpuTypes.Is(s.vgpus, "current_vgpu_type of virtual functions"),
	)
	switch {
	case s.isMIG != nil:
		m.AddFacts(migEnabled.Is(*s.isMIG, "nvml, /proc/driver/nvidia/capabilities"))
	case s.unknown != "":
		m.AddFacts(migEnabled.Unknown(s.unknown))
	default:
		m.AddFacts(migEnabled.Is(false, "no GPU supports it"))
	}
	if s.unknown == "" {
		m.AddFacts(migDevices.Is(s.profiles, "nvml"))
	} else {
		m.AddFacts(migDevices.Unknown(s.unknown))
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
	add("mig.capable", strconv.FormatBool(first.mig != ""), "nvml")
}
