// Package nvidia is the detector of NVIDIA's GPUs. It always reads names, driver, kernel module and MIG instances
// from /proc/driver/nvidia. Memory, MIG mode, the NVLink fabric and CUDA need NVML: a build with cgo and the tag nvml,
// libnvidia-ml.so.1, and the site's grant of the devices. Without NVML they are unknown.
package nvidia

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/sdk"
)

// Detector implements sdk.Detector.
type Detector struct {
	Version string
	library library // nil: built without NVML
}

// New returns the detector of this build.
func New(version string) Detector {
	return Detector{version, buildLibrary()}
}

// library is NVML, or a fake in a test.
type library interface {
	// query asks about all GPUs. It may hang with the driver.
	query() (machine, error)
}

// machine is the result of NVML.
type machine struct {
	driver, cuda string
	gpus         []gpu
	failures     []string // of GPUs that NVML lists and cannot open
}

// gpu is NVML's result about one GPU. Empty and zero fields are unknown.
type gpu struct {
	address    string // 0000:17:00.0
	name       string
	memory     uint64 // bytes
	family     string // hopper
	compute    string // 9.0
	mig        string // enabled, disabled; empty if the GPU cannot use MIG
	migDevices []string
	// none, passthrough, vgpu, host-vgpu or host-vsga: whether this machine is a guest with it, or has guests on it.
	virtualization string
	fabric         fabric
}

var (
	useNVML = sdk.Attr[bool]{
		Name:    "nvml",
		Doc:     "Whether to use NVML where it exists.",
		Default: new(true),
	}

	expectedGPUs = sdk.Attr[int]{
		Name:    "expected_gpus",
		Minimum: new(0.0),
		Doc: "How many GPUs this machine must have. Without it, those on the PCI bus that are not given to " +
			"virtual machines: then a GPU that has left the bus is not missed.",
	}

	driverVersion = sdk.Fact[string]{
		Name: "driver_version",
		Doc:  "Version of the loaded kernel module: 570.86.15.",
	}
	kernelModule = sdk.Fact[string]{Name: "kernel_module", Doc: "`open` or `proprietary`."}
	cudaVersion  = sdk.Fact[string]{
		Name: "cuda_version",
		Doc:  "The newest CUDA that the driver supports: 12.8.",
	}
	products = sdk.Fact[map[string]int]{
		Name: "products",
		Doc:  "How many GPUs there are of each name.",
	}
	migEnabled = sdk.Fact[bool]{Name: "mig_enabled", Doc: "Whether any GPU is in MIG mode."}
	migDevices = sdk.Fact[map[string]int]{
		Name: "mig_devices",
		Doc:  `How many MIG devices there are of each profile: { "1g.10gb" = 7 }.`,
	}
	vgpuTypes = sdk.Fact[map[string]int]{
		Name: "vgpu_types",
		Doc: `How many virtual functions are set to each type of vGPU, by its number: { "588" = 4 }. ` +
			"Their address and physical function are in `devices`.",
	}
)

// Domain is the domain of the recommended labels, which have the names of NVIDIA's GPU feature discovery.
const Domain = "nvidia.com"

// Describe implements sdk.Detector.
func (d Detector) Describe() sdk.Description {
	out := sdk.Description{
		Name:    "nvidia",
		Version: d.Version,
		Vendor:  "prelet",
		Doc:     "NVIDIA GPUs: names, driver, MIG instances. Without memory, fabric and CUDA: built without NVML.",
		Config:  []sdk.Declaration{useNVML, expectedGPUs},
		Facts: []sdk.Declaration{
			driverVersion,
			kernelModule,
			cudaVersion,
			products,
			migEnabled,
			migDevices,
			vgpuTypes,
			gpusExpected,
			gpusAttached,
			gpusMissing,
			gpusComplete,
			fabricState,
			fabricHealth,
			fabricCluster,
			fabricClique,
		},
		Domains: []string{Domain},
		Match:   sdk.Match{PCIIDs: []string{"10de:*:0300", "10de:*:0302"}},
	}
	if d.library != nil {
		out.Doc = "NVIDIA GPUs: names, driver, MIG; with NVML also memory, NVLink fabric and CUDA."
		out.Wants = sdk.Needs{Devices: []string{"/dev/nvidiactl", "/dev/nvidia*"}}
	}

	return out
}

// Detect implements sdk.Detector.
func (d Detector) Detect(ctx context.Context, r sdk.Request, a *sdk.Answer) error {
	result, unknown := d.queryLibrary(ctx, r, a)
	byAddress := map[string]gpu{}
	for _, g := range result.gpus {
		byAddress[g.address] = g
	}

	hasDriver := reportDriver(r.Root, result, unknown, a)
	s := newSummary(unknown)
	i := newInventory(r, unknown == "", hasDriver)
	for _, p := range r.Devices {
		x := readGPU(r.Root, p)
		if physical, isVirtual := devices.Virtual(r.Root, p); isVirtual {
			x.Attributes["physical_function"] = physical
			s.addVirtual(r.Root, p, &x)
			a.Add(x)
			continue
		}

		g, isKnown := byAddress[p.Address]
		if isKnown {
			addNVML(&x, g)
			s.known = append(s.known, g)
		}
		s.add(x, g)
		i.add(p, x, isKnown)
		a.Add(x)
	}
	if missing := len(result.gpus) - len(s.known); missing > 0 {
		a.Warn("NVML reports %d GPUs that are not on the PCI bus", missing)
	}
	for _, failure := range result.failures {
		a.Warn("NVML: %s", failure)
	}
	i.report(a)
	s.report(a)
	s.recommend(a)

	f := joinFabrics(s.known)
	f.report(a, unknown)

	return nil
}

// queryLibrary asks NVML, unless a reason prevents it, and keeps time for an answer without it. It returns the reason
// of a missing result.
func (d Detector) queryLibrary(
	ctx context.Context,
	r sdk.Request,
	a *sdk.Answer,
) (result machine, unknown string) {
	switch {
	case !useNVML.Of(r.Config):
		return machine{}, "the site sets nvml = false"
	case d.library == nil:
		return machine{}, "this detector was built without NVML"
	case !r.Root.Real():
		return machine{}, "NVML works on this machine only"
	case len(r.Devices) == 0:
		return machine{}, "this machine has no GPU"
	}

	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/5))
		defer cancel()
	}
	type outcome struct {
		machine
		err error
	}
	done := make(chan outcome, 1) // buffered: the result may come too late
	go func() {
		m, err := d.library.query()
		done <- outcome{m, err}
	}()

	const warning = "NVML failed: %v. Memory, MIG, the fabric and CUDA are unknown"
	select {
	case o := <-done:
		if o.err != nil {
			a.Warn(warning, o.err)
			return machine{}, o.err.Error()
		}
		return o.machine, ""
	case <-ctx.Done():
		unknown = "NVML did not return in time: the driver may hang"
		a.Warn(warning, unknown)
		return machine{}, unknown
	}
}

// version matches the version of a driver: 570.86.15.
var version = regexp.MustCompile(`^\d+(\.\d+)+$`)

// informationFile is the driver's file about a GPU, which exists while the driver has the GPU.
func informationFile(p sdk.PCIDevice) string {
	return "/proc/driver/nvidia/gpus/" + p.Address + "/information"
}

// readGPU reads the files of NVIDIA's driver about one GPU. With another driver there are none.
func readGPU(r sdk.Root, p sdk.PCIDevice) sdk.Device {
	x := devices.New(p, "gpu", "nvidia")
	file := informationFile(p)
	text, err := r.Text(file)
	if err != nil {
		return x
	}

	fields := map[string]string{}
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(line, ":")
		v = strings.TrimSpace(v)
		// The driver writes these while a GPU is not initialised.
		isUnknown := v == "Unknown" || v == "N/A" || strings.Contains(v, "?")
		if !isUnknown {
			fields[strings.TrimSpace(k)] = v
		}
	}
	devices.SetName(&x, fields["Model"], "NVIDIA", file)
	devices.SetAttribute(&x, "video_bios", fields["Video BIOS"], file)
	devices.SetAttribute(&x, "gsp_firmware", fields["GPU Firmware"], file)
	if fields["GPU Excluded"] == "Yes" {
		devices.SetAttribute(&x, "excluded", "true", file)
	}

	if minor, err := strconv.ParseUint(fields["Device Minor"], 10, 32); err == nil {
		x.Attributes["minor"] = fields["Device Minor"]
		dir := fmt.Sprintf("/proc/driver/nvidia/capabilities/gpu%d/mig", minor)
		if instances := r.Glob(dir + "/gi*"); len(instances) > 0 {
			devices.SetAttribute(&x, "mig_gpu_instances", strconv.Itoa(len(instances)), dir)
		}
	}

	return x
}

// addNVML adds NVML's result.
func addNVML(x *sdk.Device, g gpu) {
	const evidence = "nvml"
	devices.SetName(x, g.name, "NVIDIA", evidence)
	devices.SetMemory(x, g.memory, evidence)
	devices.SetAttribute(x, "family", g.family, evidence)
	devices.SetAttribute(x, "compute_capability", g.compute, evidence)
	devices.SetAttribute(x, "mig", g.mig, evidence)
	devices.SetAttribute(x, "mig_devices", strings.Join(g.migDevices, " "), evidence)
	devices.SetAttribute(x, "virtualization", g.virtualization, evidence)
	devices.SetAttribute(x, "fabric_state", g.fabric.state, evidence)
	devices.SetAttribute(x, "fabric_health", g.fabric.health, evidence)
}

// reportDriver reports the loaded driver and its CUDA, and returns whether there is one.
func reportDriver(
	r sdk.Root,
	result machine,
	unknown string,
	a *sdk.Answer,
) (isLoaded bool) {
	const file = "/proc/driver/nvidia/version"
	text, err := r.Text(file)
	number, module := parseDriver(text)
	switch {
	case number != "":
		a.AddFacts(driverVersion.Is(number, file), kernelModule.Is(module, file))
		a.Recommend(Domain+"/cuda.driver-version.full", sdk.LabelValue(number), file)
	case result.driver != "":
		a.AddFacts(driverVersion.Is(result.driver, "nvml"), kernelModule.Unknown("%s has no module", file))
		a.Recommend(Domain+"/cuda.driver-version.full", sdk.LabelValue(result.driver), "nvml")
	case err != nil:
		a.AddFacts(
			driverVersion.Unknown("the driver is not loaded: %v", err),
			kernelModule.Unknown("the driver is not loaded"),
		)
	default:
		a.AddFacts(
			driverVersion.Unknown("%s has no version", file),
			kernelModule.Unknown("%s has no version", file),
		)
	}

	isLoaded = err == nil || result.driver != ""
	if result.cuda == "" {
		a.AddFacts(cudaVersion.Unknown("%s", cmp.Or(unknown, "NVML does not report it")))
		return isLoaded
	}
	a.AddFacts(cudaVersion.Is(result.cuda, "nvml"))
	a.Recommend(Domain+"/cuda.runtime-version.full", sdk.LabelValue(result.cuda), "nvml")

	return isLoaded
}

// parseDriver reads the first line of /proc/driver/nvidia/version, in one of two forms:
//
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@…)
func parseDriver(text string) (number, module string) {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "NVRM version:") {
		return "", ""
	}

	module = "proprietary"
	if strings.Contains(line, "Open Kernel Module") {
		module = "open"
	}
	for _, word := range strings.Fields(line) {
		if version.MatchString(word) {
			return word, module
		}
	}

	return "", ""
}
