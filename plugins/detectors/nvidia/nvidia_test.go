package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

// The build without NVML is tested, because all machines can run it.
func detector() sdk.Detector { return declare("1.0.0", nil) }

func TestDetector(t *testing.T) { detectortest.Run(t, detector()) }

// fake replaces NVML. Behind its GPUs it has one for each failure.
type fake struct {
	machine
	err      error
	failures []string // "" hangs, "denied" is errDenied
	hang     bool
	closed   *bool
	release  chan struct{} // ends what hangs, with the bubble of a test
}

func (f fake) open() (machine, int, error) {
	if f.hang {
		<-f.release
	}
	return machine{driver: f.driver, cuda: f.cuda, isMismatch: f.isMismatch}, len(f.gpus) + len(f.failures), f.err
}

func (f fake) gpu(i int) (gpu, error) {
	if i < len(f.gpus) {
		return f.gpus[i], nil
	}
	why := f.failures[i-len(f.gpus)]
	switch why {
	case "":
		<-f.release
	case "denied":
		return gpu{}, errDenied
	}
	return gpu{}, errors.New(why)
}

func (f fake) close() {
	if f.closed != nil {
		*f.closed = true
	}
}

// ask runs the detector on this machine's root, where it uses NVML, with invented devices.
func ask(t *testing.T, l library) contract.Answer {
	t.Helper()
	return askConfigured(t, l, nil)
}

func askConfigured(t *testing.T, l library, config map[string]any) contract.Answer {
	t.Helper()
	root, err := sdk.NewRoot("/")
	if err != nil {
		t.Fatalf("NewRoot: got %v, want no error", err)
	}
	devices := []sdk.PCIDevice{
		{Address: "00ff:17:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia"},
		{Address: "00ff:3d:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia"},
	}
	if f, ok := l.(fake); ok && len(f.gpus)+len(f.failures) > len(devices) {
		for i := len(devices); i < 16; i++ {
			d := devices[0]
			d.Address = fmt.Sprintf("00ff:%02x:00.0", 0x80+i)
			devices = append(devices, d)
		}
	}

	return detectInBubble(t, l, func(l library) sdk.Detector { return declare("1.0.0", l) }, config, devices, root)
}

// detectInBubble runs the detector that is declared with l within a second of a clock that nothing slows down.
func detectInBubble(t *testing.T, l library, declared func(library) sdk.Detector, config map[string]any,
	devices []sdk.PCIDevice, root sdk.Root,
) (a contract.Answer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if f, ok := l.(fake); ok {
			f.release = make(chan struct{})
			defer close(f.release)
			l = f
		}
		var err error
		if a, err = sdk.Detect(ctx, declared(l), config, devices, root); err != nil {
			t.Errorf("Detect: got %v, want no error", err)
		}
	})

	return a
}

func TestNVML(t *testing.T) {
	h100 := gpu{name: "NVIDIA H100 80GB HBM3", memory: 80 << 30, family: "hopper", compute: "9.0", mig: "disabled"}
	first, second := h100, h100
	first.address, second.address = "00ff:17:00.0", "00ff:3d:00.0"
	second.mig, second.migDevices = "enabled", []string{"1g.10gb", "1g.10gb", "3g.40gb"}
	a := ask(t, fake{machine: machine{driver: "570.86.15", cuda: "12.8", gpus: []gpu{first, second}}})
	if d := a.Devices[1]; *d.MemoryBytes != 80<<30 || *d.Model != "H100 80GB HBM3" ||
		d.Attributes["mig_devices"] != "1g.10gb 1g.10gb 3g.40gb" {
		t.Errorf("second GPU: got %+v, want NVML's memory, model and MIG devices", d)
	}
	want := map[string]string{
		"nvidia.com/gpu.product":               "NVIDIA-H100-80GB-HBM3",
		"nvidia.com/gpu.count":                 "2",
		"nvidia.com/gpu.memory":                "81920",
		"nvidia.com/gpu.family":                "hopper",
		"nvidia.com/gpu.compute.major":         "9",
		"nvidia.com/cuda.runtime-version.full": "12.8",
		"nvidia.com/mig.capable":               "true",
	}
	for k, v := range want {
		if !slices.ContainsFunc(a.Labels, func(l contract.Label) bool { return l.Key == k && l.Value == v }) {
			t.Errorf("got labels %v, want %s=%s", a.Labels, k, v)
		}
	}
	if v := fact(a, "mig_enabled").Value; v != true {
		t.Errorf("mig_enabled: got %v, want true", v)
	}
	if v, _ := fact(a, "mig_devices").Value.(map[string]any); v["1g.10gb"] != 2.0 {
		t.Errorf("mig_devices: got %v, want two 1g.10gb", v)
	}
}

// TestMIG: the mode of each GPU is known, or that of all is not, except that one is in MIG mode.
func TestMIG(t *testing.T) {
	off, on := gpu{address: "00ff:17:00.0", mig: "disabled"}, gpu{address: "00ff:17:00.0", mig: "enabled"}
	none := gpu{address: "00ff:3d:00.0"}
	unclear := gpu{address: "00ff:3d:00.0", whyNoMIG: "error 999"}
	for name, c := range map[string]struct {
		gpus         []gpu
		failures     []string
		enabled      any
		why, capable string
	}{
		"off":                     {[]gpu{off, none}, nil, false, "", "true"},
		"no kind has it":          {[]gpu{none}, nil, false, "", "false"},
		"one answers with errors": {[]gpu{off, unclear}, nil, nil, "00ff:3d:00.0: error 999", "true"},
		"the first does":          {[]gpu{unclear}, nil, nil, "00ff:3d:00.0: error 999", "<nil>"},
		"one is on":               {[]gpu{on, unclear}, nil, true, "", "true"},
		"one hangs":               {[]gpu{off}, []string{""}, nil, "GPU 1: NVML did not return in time: the driver may hang", "true"},
	} {
		a := ask(t, fake{machine: machine{driver: "570.86.15", gpus: c.gpus}, failures: c.failures})
		f := fact(a, "mig_enabled")
		if got := fmt.Sprint(label(a, "nvidia.com/mig.capable")); f.Value != c.enabled || f.Unknown != c.why || got != c.capable {
			t.Errorf("%s: got %v, unknown because %q, capable %s; want %v, %q, %s", name, f.Value, f.Unknown, got, c.enabled, c.why, c.capable)
		}
		if got := fact(a, "mig_devices").Value; (got != nil) != (c.why == "" && name != "one is on") {
			t.Errorf("%s: got mig_devices %v, want them only of GPUs that are all known", name, got)
		}
	}
}

func TestNVMLFails(t *testing.T) {
	for name, l := range map[string]fake{"an error": {err: errors.New("libnvidia-ml.so.1 is not there")}, "a driver that hangs": {hang: true}} {
		a := ask(t, l)
		if len(a.Devices) != 2 || len(a.Warnings) != 1 || fact(a, "cuda_version").Value != nil {
			t.Errorf("NVML with %s: got %+v, want two devices and a warning", name, a)
		}
	}
}

// TestLoading: while the kernel loads the module, the detector waits for it.
func TestLoading(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(text+"\n"), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	write := func(state string) { put("sys/module/nvidia/initstate", state) }
	write("coming")
	const version = "proc/driver/nvidia/version" // which is there before the GPUs are
	put(version, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Mon Jan 20 00:00:00 UTC 2025")
	root, err := sdk.NewRoot(dir)
	must(t, err)
	devices := []sdk.PCIDevice{{Address: "00ff:17:00.0", Vendor: "10de", Device: "2330", Class: "030200"}}
	detect := func() contract.Answer {
		return detectInBubble(t, nil, func(library) sdk.Detector { return detector() }, nil, devices, root)
	}

	const loading = "the kernel module is still being loaded"
	a := detect()
	if why := fact(a, "cuda_version").Unknown; why != loading || !strings.Contains(strings.Join(a.Warnings, "\n"), loading) {
		t.Errorf("a module that is not loaded in time: got unknown because %q, warnings %q", why, a.Warnings)
	}
	for _, name := range []string{"gpus_complete", "gpus_missing"} {
		if got := fact(a, name); got.Unknown != loading {
			t.Errorf("%s of a module that is not loaded in time: got %v, unknown because %q; want %q", name, got.Value, got.Unknown,
				loading)
		}
	}
	must(t, os.Remove(filepath.Join(dir, version)))

	a = detectInBubble(t, nil, func(library) sdk.Detector {
		time.AfterFunc(500*time.Millisecond, func() { write("live") })
		return detector()
	}, nil, devices, root)
	if why := fact(a, "cuda_version").Unknown; why == loading || len(a.Warnings) > 0 {
		t.Errorf("a module that is loaded while it waits: got unknown because %q, warnings %q", why, a.Warnings)
	}
}

// sameFabric is a GPU of a rack's NVLink domain.
func sameFabric(address string) gpu {
	const rack = "6f1c2ad4-9d0e-4b2a-8c3f-0123456789ab"
	return gpu{address: address, fabric: fabric{fabricCompleted, healthy, rack, 32766}}
}

// TestFabric: the facts are of the GPU that is worst, and the clique only of GPUs that all are in it.
func TestFabric(t *testing.T) {
	good := sameFabric("00ff:17:00.0")
	other := sameFabric("00ff:3d:00.0")
	change := func(f func(*fabric)) gpu {
		g := other
		f(&g.fabric)
		return g
	}

	for name, tt := range map[string]struct {
		second               gpu
		state, health, label any
		warning              string
	}{
		"all": {other, fabricCompleted, healthy, "6f1c2ad4-9d0e-4b2a-8c3f-0123456789ab.32766", ""},
		"one is not ready": {change(func(f *fabric) { *f = fabric{state: fabricInProgress} }), fabricInProgress, healthy, nil,
			"are not registered with the NVLink fabric yet (in-progress)"},
		"one has failed": {change(func(f *fabric) { *f = fabric{state: fabricFailed} }), fabricFailed, healthy, nil,
			"could not be registered"},
		"two cliques": {change(func(f *fabric) { f.clique = 7 }), fabricCompleted, healthy, nil,
			"the GPUs are in 2 cliques: nvidia.com/gpu.clique is not recommended"},
		"one is unhealthy": {change(func(f *fabric) { f.health = unhealthy }), fabricCompleted, unhealthy,
			"6f1c2ad4-9d0e-4b2a-8c3f-0123456789ab.32766", "the NVLink fabric is unhealthy"},
		"not reported": {change(func(f *fabric) { *f = fabric{} }), fabricCompleted, healthy,
			"6f1c2ad4-9d0e-4b2a-8c3f-0123456789ab.32766", ""},
	} {
		a := ask(t, fake{machine: machine{driver: "570.86.15", gpus: []gpu{good, tt.second}}})
		if s, h := fact(a, "fabric_state").Value, fact(a, "fabric_health").Value; s != tt.state || h != tt.health {
			t.Errorf("%s: got fabric_state %v, fabric_health %v; want %v, %v", name, s, h, tt.state, tt.health)
		}
		if got := a.Devices[0].Attributes["fabric_clique"]; got != "32766" {
			t.Errorf("%s: got fabric_clique %q of the first GPU, want 32766", name, got)
		}
		if got := label(a, "nvidia.com/gpu.clique"); got != tt.label {
			t.Errorf("%s: got gpu.clique %v, want %v", name, got, tt.label)
		}
		hasClique := fact(a, "fabric_clique").Value == 32766.0 && fact(a, "fabric_cluster").Value != nil
		if hasClique != (tt.label != nil) {
			t.Errorf("%s: got clique %v of %v, want one: %v", name, fact(a, "fabric_clique").Value, fact(a, "fabric_cluster").Value, tt.label != nil)
		}
		if got := strings.Join(a.Warnings, "\n"); !strings.Contains(got, tt.warning) || (got == "") != (tt.warning == "") {
			t.Errorf("%s: got warnings %q, want %q", name, got, tt.warning)
		}
	}
}

// TestNoFabric: GPUs without a fabric, and a fabric that ends at the machine, have no clique, and nothing is wrong.
func TestNoFabric(t *testing.T) {
	for state, why := range map[string]string{
		fabricNotSupported: "the GPUs have no NVLink fabric",
		fabricCompleted:    "the fabric ends at this machine: it has no cluster UUID",
	} {
		g := fabric{state: state}
		a := ask(t, fake{machine: machine{driver: "570.86.15", gpus: []gpu{
			{address: "00ff:17:00.0", fabric: g}, {address: "00ff:3d:00.0", fabric: g}}}})
		if got := fact(a, "fabric_cluster").Unknown; fact(a, "fabric_state").Value != state || got != why || len(a.Warnings) > 0 {
			t.Errorf("%s: got state %v, no cluster because %q, warnings %q; want that state, %q and no warning",
				state, fact(a, "fabric_state").Value, got, a.Warnings, why)
		}
	}
}

// TestSevenOfEight: a GPU that NVML does not have, one that left the bus, and a machine that is complete.
func TestSevenOfEight(t *testing.T) {
	two := []gpu{{address: "00ff:17:00.0"}, {address: "00ff:3d:00.0"}}
	for name, tt := range map[string]struct {
		gpus      []gpu
		failures  []string
		config    map[string]any
		attached  any
		missing   string
		complete  any
		complaint string
	}{
		"complete":          {two, nil, nil, 2.0, "[]", true, ""},
		"as the site wants": {two, nil, map[string]any{"expected_gpus": 2.0}, 2.0, "[]", true, ""},
		"one without the driver": {two[:1], []string{"it has fallen off the bus"}, nil, 1.0, "[00ff:3d:00.0]", false,
			"1 of 2 GPUs are attached. On the bus without the driver: 00ff:3d:00.0. See"},
		"one left the bus": {two, nil, map[string]any{"expected_gpus": 3.0}, 2.0, "[]", false,
			"2 of 3 GPUs are attached. 1 not on the PCI bus. See"},
		// The driver may have it: nothing is held.
		"one hangs":            {two[:1], []string{""}, nil, nil, "<nil>", nil, "NVML: GPU 1: NVML did not return in time"},
		"one is not permitted": {two[:1], []string{"denied"}, nil, nil, "<nil>", nil, "NVML: GPU 1: no permission"},
		"all are lost": {nil, []string{"it is lost", "it is lost"}, nil, 0.0, "[00ff:17:00.0 00ff:3d:00.0]", false,
			"0 of 2 GPUs are attached. On the bus without the driver: 00ff:17:00.0, 00ff:3d:00.0. See"},
		"all hang": {nil, []string{"", ""}, nil, nil, "<nil>", nil, "NVML failed: GPU 0: NVML did not return in time"},
		"one hangs, and one left the bus": {two[:1], []string{""}, map[string]any{"expected_gpus": 3.0}, nil, "<nil>", false,
			"at most 2 of 3 GPUs are attached"},
	} {
		a := askConfigured(t, fake{machine: machine{driver: "570.86.15", gpus: tt.gpus}, failures: tt.failures}, tt.config)
		missing := fmt.Sprint(fact(a, "gpus_missing").Value)
		if fact(a, "gpus_attached").Value != tt.attached || missing != tt.missing || fact(a, "gpus_complete").Value != tt.complete {
			t.Errorf("%s: got %v attached, missing %s, complete %v; want %v, %s, %v", name, fact(a, "gpus_attached").Value, missing,
				fact(a, "gpus_complete").Value, tt.attached, tt.missing, tt.complete)
		}
		if why := fact(a, "gpus_missing").Unknown; (why == "") != (tt.missing != "<nil>") {
			t.Errorf("%s: gpus_missing is unknown because %q, want a reason: %v", name, why, tt.missing == "<nil>")
		}
		got := strings.Join(a.Warnings, "\n")
		silent := 0
		for _, x := range a.Devices {
			if x.Attributes["answers"] == "false" {
				silent++
			}
		}
		if silent != len(two)-len(tt.gpus) {
			t.Errorf("%s: %d GPUs are marked as without an answer, want %d", name, silent, len(two)-len(tt.gpus))
		}
		isNamed := strings.Contains(got, "without the driver") == (len(tt.missing) > len("<nil>"))
		if !strings.Contains(got, tt.complaint) || (got == "") != (tt.complaint == "") || !isNamed {
			t.Errorf("%s: got warnings %q, want %q, and those missing only", name, got, tt.complaint)
		}
	}
}

// TestOpenHangs: where NVML does not even count the GPUs, each may be attached, whatever the driver's files list.
func TestOpenHangs(t *testing.T) {
	root, err := sdk.NewRoot("/")
	if err != nil {
		t.Fatalf("NewRoot: got %v, want no error", err)
	}
	var got machine
	declared := func(l library) sdk.Detector {
		d := declare("1.0.0", l)
		d.Detect = func(m *sdk.Machine) error {
			got, _ = queryLibrary(m, l)
			return nil
		}
		return d
	}
	devices := []sdk.PCIDevice{
		{Address: "00ff:17:00.0", Vendor: "10de", Device: "2330", Class: "030200"},
		{Address: "00ff:3d:00.0", Vendor: "10de", Device: "2330", Class: "030200"},
	}
	detectInBubble(t, fake{hang: true}, declared, nil, devices, root)
	if len(got.undecided) != len(devices) || got.isCounted {
		t.Errorf("got undecided %q, counted %t; want one for each device, not counted", got.undecided, got.isCounted)
	}
}

// TestBuild checks that the description depends on whether NVML is built in.
func TestBuild(t *testing.T) {
	for _, tt := range []struct {
		l    library
		doc  string
		asks int
	}{{nil, "built without NVML", 0}, {fake{}, "with NVML also memory", 2}} {
		d := declare("1.0.0", tt.l)
		if !strings.Contains(d.Doc, tt.doc) || len(d.Wants.Devices) != tt.asks {
			t.Errorf("got doc %q, wants %v; want %q and %d devices", d.Doc, d.Wants, tt.doc, tt.asks)
		}
	}
}

func label(a contract.Answer, key string) any {
	for _, l := range a.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return nil
}

func fact(a contract.Answer, name string) contract.Fact {
	for _, f := range a.Facts {
		if f.Name == name {
			return f
		}
	}
	return contract.Fact{Value: "no such fact"}
}

func TestParseDriver(t *testing.T) {
	for text, want := range map[string][2]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023":           {"535.104.05", "proprietary"},
		"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build  (a@b 1.2)\nGCC": {"570.86.15", "open"},
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  Sat Aug 19":                                         {"", ""},
		"": {"", ""}, "535.104.05": {"", ""},
	} {
		if v, m := parseDriver(text); v != want[0] || m != want[1] {
			t.Errorf("parseDriver(%q): got %q, %q, want %q", text, v, m, want)
		}
	}
}

func FuzzProc(f *testing.F) {
	f.Add("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat", "Model: \t\t NVIDIA H100\nDevice Minor: 0")
	f.Add("NVRM version: 1.2", "Model:\x1b[2J\nVideo BIOS: \xff")
	f.Fuzz(func(t *testing.T, version, information string) {
		root := detectortest.Root(t, "")
		tree(t, root.Dir(), version, information)
		detectortest.Detect(t, detector(), root, nil)
	})
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
