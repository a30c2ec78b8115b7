// Package nvidia is the detector of NVIDIA's GPUs. It always reads names, driver, kernel module and MIG instances
// from /proc/driver/nvidia. Memory, MIG mode, the NVLink fabric and CUDA need NVML: a build with cgo and the tag nvml,
// libnvidia-ml.so.1, and the site's grant of the devices. Without NVML they are unknown.
package nvidia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/internal/devices"
	"github.com/prelet/prelet/plugins/sdk"
)

// New declares the detector of a version, with NVML if it is in this build.
func New(version string) sdk.Detector { return declare(version, buildLibrary()) }

// library is NVML, or a fake in a test. Each call but close may hang with the driver or with one GPU.
type library interface {
	// open begins, and asks about the driver. It returns how many GPUs NVML lists.
	open() (m machine, gpus int, err error)
	// gpu asks about one GPU. Goroutines may call it at the same time.
	gpu(i int) (gpu, error)
	// close ends what open began. Nothing else may be running.
	close()
}

// machine is the result of NVML.
type machine struct {
	driver, cuda string
	gpus         []gpu
	failures     []string // of GPUs that NVML lists and that do not answer
	undecided    []string // those of failures after which the driver may have the GPU
	isMismatch   bool     // the library is of another version than the loaded driver
	isCounted    bool     // NVML has listed the GPUs, also if none of them answers
}

// gpu is NVML's result about one GPU. Empty and zero fields are unknown.
type gpu struct {
	address    string // 0000:17:00.0
	name       string
	memory     uint64 // bytes
	family     string // hopper
	compute    string // 9.0
	mig        string // enabled, disabled; empty if the GPU cannot use MIG
	nextMIG    string // mig after its next reset
	whyNoMIG   string // why mig is unknown
	migDevices []string
	// none, passthrough, vgpu, host-vgpu or host-vsga: whether this machine is a guest with it, or has guests on it.
	virtualization string
	fabric         fabric
	health         health
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

// firstUse is how long the driver may take to be loaded and to initialize GPUs that no program uses: that took 25 s
// with A100 (AgentBaker#2829).
const firstUse = 45 * time.Second

// declare declares the detector with a library, nil without one.
func declare(version string, l library) sdk.Detector {
	out := sdk.Detector{
		Name:    "nvidia",
		Version: version,
		Vendor:  "prelet",
		Doc:     "NVIDIA GPUs: names, driver, MIG instances. Without memory, fabric and CUDA: built without NVML.",
		Config:  []sdk.Declaration{useNVML, expectedGPUs},
		Facts: append([]sdk.Declaration{
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
		}, healthFacts()...),
		Domains: []string{Domain},
		Match:   sdk.Match{PCIIDs: []string{"10de:*:0300", "10de:*:0302"}},
		Detect:  func(m *sdk.Machine) error { return detect(m, l) },
	}
	if l != nil {
		out.Doc = "NVIDIA GPUs: names, driver, MIG; with NVML also memory, NVLink fabric and CUDA."
		out.Timeout = firstUse
		out.Wants = sdk.Needs{Devices: []string{"/dev/nvidiactl", "/dev/nvidia*"}}
	}

	return out
}

func detect(m *sdk.Machine, l library) error {
	result, unknown := queryLibrary(m, l)
	byAddress := map[string]gpu{}
	for _, g := range result.gpus {
		byAddress[g.address] = g
	}

	hasDriver := reportDriver(m, result, unknown)
	s := newSummary(cmp.Or(unknown, strings.Join(result.failures, "; ")))
	i := newInventory(m, unknown == "" || result.isCounted, hasDriver)
	i.undecided = result.undecided
	isAsked := i.byNVML || len(result.undecided) > 0
	for _, x := range m.Devices {
		readGPU(m.Root, x)
		if physical := x.PhysicalFunction(); physical != "" {
			x.Attributes["physical_function"] = physical
			s.addVirtual(m.Root, x)
			m.Add(x)
			continue
		}

		g, isKnown := byAddress[x.Address]
		if isKnown {
			addNVML(x, g)
			s.known = append(s.known, g)
		} else if isAsked && x.Driver == "nvidia" {
			x.SetAttribute("answers", "false", "nvml")
		}
		s.add(x, g)
		i.add(x, isKnown)
		m.Add(x)
	}
	if missing := len(result.gpus) - len(s.known); missing > 0 {
		m.Warn("NVML reports %d GPUs that are not on the PCI bus", missing)
	}
	for _, failure := range result.failures {
		m.Warn("NVML: %s", failure)
	}
	i.report(m)
	s.report(m)
	s.recommend(m)

	f := joinFabrics(s.known)
	f.report(m, unknown)
	reportHealth(m, result, unknown)

	return nil
}

// queryLibrary asks NVML, unless a reason prevents it, and keeps time for an answer without it. It returns the reason
// of a missing result.
func queryLibrary(m *sdk.Machine, l library) (result machine, unknown string) {
	const loading = "the kernel module is still being loaded"
	state, _ := m.Text("/sys/module/nvidia/initstate") // no file: it is not loaded, or built in
	switch {
	case state == "coming":
		m.NotReady(firstUse, loading)
		return machine{undecided: slices.Repeat([]string{loading}, len(m.Devices))}, loading
	case !useNVML.Of(m.Config):
		return machine{}, "the site sets nvml = false"
	case l == nil:
		return machine{}, "this detector was built without NVML"
	case !m.Real():
		return machine{}, "NVML works on this machine only"
	case len(m.Devices) == 0:
		return machine{}, "this machine has no GPU"
	}

	ctx := m.Context()
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/5))
		defer cancel()
	}
	result, err := askAll(ctx, l)
	if errors.Is(err, errHangs) {
		result.undecided = slices.Repeat([]string{err.Error()}, len(m.Devices))
	}
	if err != nil {
		m.Warn("NVML failed: %v. Memory, MIG, the fabric and CUDA are unknown", err)
		return result, err.Error()
	}

	return result, ""
}

var (
	errHangs  = errors.New("NVML did not return in time: the driver may hang")
	errDenied = errors.New("no permission: the devices are not granted (allow { devices = [\"/dev/nvidia*\"] })")
)

// askAll asks NVML about the driver, and about all GPUs at the same time: where one hangs, the others answer. Of a
// failure the result has no GPU.
func askAll(ctx context.Context, l library) (machine, error) {
	type opened struct {
		machine
		count int
	}
	got, err := within(ctx, func() (o opened, err error) {
		o.machine, o.count, err = l.open()
		return o, err
	})()
	result := got.machine
	if err != nil {
		return machine{isMismatch: result.isMismatch}, err
	}
	result.isCounted = true

	var answers []func() (gpu, error)
	for i := range got.count {
		answers = append(answers, within(ctx, func() (gpu, error) { return l.gpu(i) }))
	}
	hangs := false
	for i, answer := range answers {
		g, err := answer()
		hangs = hangs || errors.Is(err, errHangs)
		if err != nil { // it does not hide the others
			failure := fmt.Sprintf("GPU %d: %v", i, err)
			result.failures = append(result.failures, failure)
			if errors.Is(err, errHangs) || errors.Is(err, errDenied) {
				result.undecided = append(result.undecided, failure)
			}
			continue
		}
		result.gpus = append(result.gpus, g)
	}
	if !hangs {
		l.close()
	}
	if len(result.gpus) == 0 && len(result.failures) > 0 {
		none := machine{driver: result.driver, undecided: result.undecided, isCounted: true}

		return none, errors.New(strings.Join(result.failures, "; "))
	}

	return result, nil
}

// within starts a call. The function that it returns waits for the result until ctx ends: then it is errHangs.
func within[T any](ctx context.Context, call func() (T, error)) func() (T, error) {
	var result T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = call()
	}()

	return func() (T, error) {
		select {
		case <-done:
		case <-ctx.Done():
			select {
			case <-done: // while another call hung
			default:
				var none T
				return none, errHangs
			}
		}

		return result, err
	}
}

// version matches the version of a driver: 570.86.15.
var version = regexp.MustCompile(`^\d+(\.\d+)+$`)

// informationFile is the driver's file about a GPU, which exists while the driver has the GPU.
func informationFile(x *sdk.Device) string {
	return "/proc/driver/nvidia/gpus/" + x.Address + "/information"
}

// readGPU reads the files of NVIDIA's driver about one GPU. With another driver there are none.
func readGPU(r sdk.Root, x *sdk.Device) {
	x.Kind, x.Vendor = "gpu", "nvidia"
	file := informationFile(x)
	text, err := r.Text(file)
	if err != nil {
		return
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
	x.SetName(fields["Model"], file)
	x.SetAttribute("video_bios", fields["Video BIOS"], file)
	x.SetAttribute("gsp_firmware", fields["GPU Firmware"], file)
	if fields["GPU Excluded"] == "Yes" {
		x.SetAttribute("excluded", "true", file)
	}

	if minor, err := strconv.ParseUint(fields["Device Minor"], 10, 32); err == nil {
		x.Attributes["minor"] = fields["Device Minor"]
		dir := fmt.Sprintf("/proc/driver/nvidia/capabilities/gpu%d/mig", minor)
		if instances := r.Glob(dir + "/gi*"); len(instances) > 0 {
			x.SetAttribute("mig_gpu_instances", strconv.Itoa(len(instances)), dir)
		}
	}
}

func addNVML(x *sdk.Device, g gpu) {
	const evidence = "nvml"
	x.SetName(g.name, evidence)
	x.SetMemory(g.memory, evidence)
	x.SetAttribute("family", g.family, evidence)
	x.SetAttribute("compute_capability", g.compute, evidence)
	x.SetAttribute("mig", g.mig, evidence)
	if g.nextMIG != g.mig {
		x.SetAttribute("mig_after_reset", g.nextMIG, evidence)
	}
	x.SetAttribute("mig_devices", strings.Join(g.migDevices, " "), evidence)
	x.SetAttribute("virtualization", g.virtualization, evidence)
	x.SetAttribute("fabric_state", g.fabric.state, evidence)
	x.SetAttribute("fabric_health", g.fabric.health, evidence)
	if g.fabric.cluster != "" {
		x.SetAttribute("fabric_clique", strconv.Itoa(g.fabric.clique), evidence)
	}
	g.health.addAttributes(x)
}

// reportDriver reports the loaded driver and its CUDA, and returns whether there is one.
func reportDriver(m *sdk.Machine, result machine, unknown string) (isLoaded bool) {
	const file = "/proc/driver/nvidia/version"
	text, err := m.Text(file)
	number, module := parseDriver(text)
	switch {
	case number != "":
		m.AddFacts(driverVersion.Is(number, file), kernelModule.Is(module, file))
		m.Recommend(Domain+"/cuda.driver-version.full", number, file)
	case result.driver != "":
		m.AddFacts(driverVersion.Is(result.driver, "nvml"), kernelModule.Unknown(file+" has no module"))
		m.Recommend(Domain+"/cuda.driver-version.full", result.driver, "nvml")
	case err != nil:
		m.AddFacts(
			driverVersion.Unknown("the driver is not loaded: "+err.Error()),
			kernelModule.Unknown("the driver is not loaded"),
		)
	default:
		m.AddFacts(
			driverVersion.Unknown(file+" has no version"),
			kernelModule.Unknown(file+" has no version"),
		)
	}

	m.AddFacts(devices.TextFact(
		cudaVersion,
		result.cuda,
		"nvml",
		cmp.Or(unknown, "NVML does not report it"),
	))
	m.Recommend(Domain+"/cuda.runtime-version.full", result.cuda, "nvml")

	return err == nil || result.driver != ""
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
