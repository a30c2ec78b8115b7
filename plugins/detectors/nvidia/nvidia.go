// Package nvidia is the detector of NVIDIA's GPUs. What the driver shows in /proc/driver/nvidia it reads always: names,
// driver, kernel module, MIG instances. Memory, MIG mode, CUDA and the rest NVML knows, which is asked where this program
// was built with it (build tag nvml, cgo), where libnvidia-ml.so.1 is, and where the site grants the devices; without it
// there is plainly less, and a warning says so.
package nvidia

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/sdk"
)

// Detector implements sdk.Detector.
type Detector struct {
	Version string
	library library // nil: this build has none
}

// New returns the detector of this build.
func New(version string) Detector { return Detector{version, buildLibrary()} }

// library is NVML, or what stands for it in a test.
type library interface {
	// query asks for all GPUs. It may hang: the driver may.
	query() (machine, error)
}

// machine is what NVML says.
type machine struct {
	driver, cuda string
	gpus         []gpu
}

// gpu is what NVML says of one. What is not known is empty or zero.
type gpu struct {
	address    string // 0000:17:00.0
	name       string
	memory     uint64 // bytes
	family     string // hopper
	compute    string // 9.0
	mig        string // enabled, disabled; empty where a GPU cannot
	migDevices []string
}

var (
	useNVML = sdk.Attr[bool]{Name: "nvml", Doc: "Whether NVML is asked, where it is.", Default: new(true)}

	driverVersion = sdk.Fact[string]{Name: "driver_version", Doc: "Of the kernel module that is loaded: 570.86.15."}
	kernelModule  = sdk.Fact[string]{Name: "kernel_module", Doc: "`open` or `proprietary`."}
	cudaVersion   = sdk.Fact[string]{Name: "cuda_version", Doc: "The newest CUDA that the driver takes: 12.8."}
	products      = sdk.Fact[map[string]int]{Name: "products", Doc: "How many GPUs there are of each name."}
	migEnabled    = sdk.Fact[bool]{Name: "mig_enabled", Doc: "Whether any GPU is in MIG mode."}
	migDevices    = sdk.Fact[map[string]int]{Name: "mig_devices", Doc: "How many MIG devices there are of each profile: { \"1g.10gb\" = 7 }."}
)

// Domain is of the labels that are recommended, with the names that NVIDIA's GPU feature discovery gave them.
const Domain = "nvidia.com"

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	out := sdk.Description{
		Name: "nvidia", Version: d.Version, Vendor: "prelet",
		Doc:     "NVIDIA GPUs: names, driver, MIG instances. This build has no NVML: memory, MIG mode and CUDA stay unknown.",
		Config:  []sdk.Declaration{useNVML},
		Facts:   []sdk.Declaration{driverVersion, kernelModule, cudaVersion, products, migEnabled, migDevices},
		Domains: []string{Domain},
		Match:   sdk.Match{PCIIDs: []string{"10de:*:0300", "10de:*:0302"}},
	}
	if d.library != nil {
		out.Doc = "NVIDIA GPUs: names, driver, MIG; memory and CUDA from NVML, which this build has."
		out.Wants = sdk.Needs{Devices: []string{"/dev/nvidiactl", "/dev/nvidia*"}}
	}
	return out
}

// Detect implements sdk.Detector.
func (d Detector) Detect(ctx context.Context, r sdk.Request, a *sdk.Answer) error {
	said, from := d.ask(ctx, r, a)
	byAddress := map[string]gpu{}
	for _, g := range said.gpus {
		byAddress[g.address] = g
	}
	t := tally{names: map[string]int{}, mig: map[string]int{}}
	for _, p := range r.Devices {
		x := procGPU(r.Root, p)
		g, known := byAddress[p.Address]
		if known {
			fill(&x, g)
		}
		t.add(x, g)
		a.Add(x)
	}
	if missing := len(said.gpus) - t.asked; missing > 0 {
		a.Warn("NVML tells of %d GPUs that the kernel does not show on the PCI bus", missing)
	}
	tellDriver(r.Root, said, from, a)
	t.tell(said, from, a)
	return nil
}

// ask asks NVML, if it may, and leaves time for an answer without it.
func (d Detector) ask(ctx context.Context, r sdk.Request, a *sdk.Answer) (machine, string) {
	switch {
	case !useNVML.Of(r.Config):
		return machine{}, "the site says nvml = false"
	case d.library == nil:
		return machine{}, "this detector was built without NVML"
	case !r.Root.Real():
		return machine{}, "NVML knows only the machine that it runs on"
	case len(r.Devices) == 0:
		return machine{}, "there is no GPU"
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/5))
		defer cancel()
	}
	type answer struct {
		machine
		err error
	}
	done := make(chan answer, 1)
	go func() {
		m, err := d.library.query()
		done <- answer{m, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			a.Warn("NVML does not answer: %v. Memory, MIG and CUDA are unknown", got.err)
			return machine{}, got.err.Error()
		}
		return got.machine, ""
	case <-ctx.Done():
		a.Warn("NVML did not answer in time: the driver hangs. Memory, MIG and CUDA are unknown")
		return machine{}, "NVML did not answer in time"
	}
}

// procGPU reads what the driver shows of one GPU. There is nothing while another driver has it.
func procGPU(r sdk.Root, p sdk.PCIDevice) sdk.Device {
	x := sdk.Device{Address: p.Address, Kind: new("gpu"), Vendor: new("nvidia"), NUMA: p.NUMA, Attributes: map[string]string{}, Evidence: map[string]string{}}
	if p.Driver != "" {
		x.Driver = new(p.Driver)
	}
	file := "/proc/driver/nvidia/gpus/" + p.Address + "/information"
	text, err := r.Text(file)
	if err != nil {
		return x
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	if name := fields["Model"]; name != "" && name != "Unknown" { // Unknown: the GPU is not initialised
		named(&x, name, file)
	}
	if v := fields["Video BIOS"]; v != "" && !strings.Contains(v, "?") {
		x.Attributes["video_bios"], x.Evidence["attributes.video_bios"] = v, file
	}
	if v := fields["GPU Firmware"]; v != "" && v != "N/A" {
		x.Attributes["gsp_firmware"], x.Evidence["attributes.gsp_firmware"] = v, file
	}
	if fields["GPU Excluded"] == "Yes" {
		x.Attributes["excluded"], x.Evidence["attributes.excluded"] = "true", file
	}
	if minor := fields["Device Minor"]; minor != "" && strings.Trim(minor, "0123456789") == "" {
		x.Attributes["minor"] = minor
		if instances := r.Glob("/proc/driver/nvidia/capabilities/gpu" + minor + "/mig/gi*"); len(instances) > 0 {
			x.Attributes["mig_gpu_instances"] = strconv.Itoa(len(instances))
			x.Evidence["attributes.mig_gpu_instances"] = "/proc/driver/nvidia/capabilities/gpu" + minor + "/mig"
		}
	}
	return x
}

// named sets the name as NVIDIA prints it, and the model without the vendor, which newer names begin with.
func named(x *sdk.Device, name, evidence string) {
	x.Name, x.Model = new(name), new(strings.TrimPrefix(name, "NVIDIA "))
	x.Evidence["name"], x.Evidence["model"] = evidence, evidence
}

// fill adds what NVML says.
func fill(x *sdk.Device, g gpu) {
	if g.name != "" {
		named(x, g.name, "nvml")
	}
	if g.memory > 0 {
		x.MemoryBytes, x.Evidence["memory_bytes"] = new(g.memory), "nvml"
	}
	for k, v := range map[string]string{"family": g.family, "compute_capability": g.compute, "mig": g.mig, "mig_devices": strings.Join(g.migDevices, " ")} {
		if v != "" {
			x.Attributes[k], x.Evidence["attributes."+k] = v, "nvml"
		}
	}
}

// tellDriver tells which driver is loaded.
func tellDriver(r sdk.Root, said machine, why string, a *sdk.Answer) {
	const file = "/proc/driver/nvidia/version"
	text, err := r.Text(file)
	version, module := kernelDriver(text)
	switch {
	case version != "":
		a.Tell(driverVersion.Is(version, file), kernelModule.Is(module, file))
		a.Recommend(Domain+"/cuda.driver-version.full", sdk.LabelValue(version), file)
	case said.driver != "":
		a.Tell(driverVersion.Is(said.driver, "nvml"), kernelModule.Unknown("%s does not say", file))
		a.Recommend(Domain+"/cuda.driver-version.full", sdk.LabelValue(said.driver), "nvml")
	case err != nil:
		a.Tell(driverVersion.Unknown("the driver is not loaded: %v", err), kernelModule.Unknown("the driver is not loaded"))
	default:
		a.Tell(driverVersion.Unknown("%s has no version", file), kernelModule.Unknown("%s has no version", file))
	}
	if said.cuda == "" {
		a.Tell(cudaVersion.Unknown("%s", orElse(why, "NVML does not say")))
		return
	}
	a.Tell(cudaVersion.Is(said.cuda, "nvml"))
	a.Recommend(Domain+"/cuda.runtime-version.full", sdk.LabelValue(said.cuda), "nvml")
}

// kernelDriver reads the first line of /proc/driver/nvidia/version, in one of two forms:
//
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@…)
func kernelDriver(text string) (version, module string) {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "NVRM version:") {
		return "", ""
	}
	module = "proprietary"
	if strings.Contains(line, "Open Kernel Module") {
		module = "open"
	}
	for _, word := range strings.Fields(line) {
		major, rest, ok := strings.Cut(word, ".")
		if _, err := strconv.Atoi(major); ok && err == nil && rest != "" && strings.Trim(rest, "0123456789.") == "" {
			return word, module
		}
	}
	return "", ""
}

// tally is what is true of all GPUs together.
type tally struct {
	names  map[string]int
	mig    map[string]int
	memory map[uint64]bool
	any    *bool // whether any is in MIG mode, once that is known of one
	found  int
	asked  int // of which NVML told
	first  gpu
}

func (t *tally) add(x sdk.Device, g gpu) {
	t.found++
	if x.Name != nil {
		t.names[*x.Name]++
	}
	if g.address != "" {
		if t.asked++; t.asked == 1 {
			t.first = g
		}
	}
	if g.memory > 0 {
		if t.memory == nil {
			t.memory = map[uint64]bool{}
		}
		t.memory[g.memory] = true
	}
	if g.mig != "" {
		t.any = new(t.any != nil && *t.any || g.mig == "enabled")
	} else if x.Attributes["mig_gpu_instances"] != "" {
		t.any = new(true)
	}
	for _, profile := range g.migDevices {
		t.mig[profile]++
	}
}

// tell tells facts and labels. A label of one kind of GPU is only true where all are of it.
func (t *tally) tell(said machine, why string, a *sdk.Answer) {
	a.Tell(products.Is(t.names, "/proc/driver/nvidia/gpus"))
	switch {
	case t.any != nil:
		a.Tell(migEnabled.Is(*t.any, "nvml, /proc/driver/nvidia/capabilities"))
	case why != "":
		a.Tell(migEnabled.Unknown("%s", why))
	default:
		a.Tell(migEnabled.Is(false, "no GPU here can"))
	}
	if why == "" {
		a.Tell(migDevices.Is(t.mig, "nvml"))
	} else {
		a.Tell(migDevices.Unknown("%s", why))
	}
	if t.found == 0 {
		return
	}
	a.Recommend(Domain+"/gpu.count", strconv.Itoa(t.found), "PCI functions of class 03")
	switch {
	case len(t.names) == 1:
		for name := range t.names {
			a.Recommend(Domain+"/gpu.product", sdk.LabelValue(name), fmt.Sprintf("the name of all %d that have one", t.names[name]))
		}
	case len(t.names) > 1:
		a.Warn("there are GPUs of %d kinds: no labels are recommended of what only some are", len(t.names))
		return
	}
	if len(t.memory) == 1 {
		a.Recommend(Domain+"/gpu.memory", strconv.FormatUint(t.first.memory>>20, 10), "nvml, in MiB")
	}
	if t.first.family != "" {
		a.Recommend(Domain+"/gpu.family", t.first.family, "nvml")
	}
	if major, minor, ok := strings.Cut(t.first.compute, "."); ok {
		a.Recommend(Domain+"/gpu.compute.major", major, "nvml")
		a.Recommend(Domain+"/gpu.compute.minor", minor, "nvml")
	}
	if t.asked > 0 {
		a.Recommend(Domain+"/mig.capable", strconv.FormatBool(t.first.mig != ""), "nvml")
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
