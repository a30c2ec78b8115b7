package nvidia

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

// The build without NVML is tested, because all machines can run it.
func detector() Detector { return Detector{Version: "1.0.0"} }

func TestMain(m *testing.M)     { detectortest.Main(m, detector()) }
func TestMachines(t *testing.T) { detectortest.Machines(t, detector(), "testdata") }
func TestConforms(t *testing.T) { detectortest.Conform(t, nil, detectortest.Roots(t, "testdata")...) }

// fake replaces NVML.
type fake struct {
	machine
	err  error
	hang bool
}

func (f fake) query() (machine, error) {
	if f.hang {
		select {}
	}
	return f.machine, f.err
}

// ask runs the detector on this machine's root, where it uses NVML, with invented devices.
func ask(t *testing.T, l library) contract.Answer {
	t.Helper()
	root, err := sdk.NewRoot("/")
	if err != nil {
		t.Fatalf("NewRoot: got %v, want no error", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	devices := []sdk.PCIDevice{
		{Address: "00ff:17:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia"},
		{Address: "00ff:3d:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia"},
	}
	a, err := sdk.Detect(ctx, Detector{"1.0.0", l}, nil, devices, root)
	if err != nil {
		t.Fatalf("Detect: got %v, want no error", err)
	}
	return a
}

func TestNVML(t *testing.T) {
	h100 := gpu{name: "NVIDIA H100 80GB HBM3", memory: 80 << 30, family: "hopper", compute: "9.0", mig: "disabled"}
	first, second := h100, h100
	first.address, second.address = "00ff:17:00.0", "00ff:3d:00.0"
	second.mig, second.migDevices = "enabled", []string{"1g.10gb", "1g.10gb", "3g.40gb"}
	a := ask(t, fake{machine: machine{"570.86.15", "12.8", []gpu{first, second}}})
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
	if v := fact(a, "mig_enabled"); v != true {
		t.Errorf("mig_enabled: got %v, want true", v)
	}
	if v, _ := fact(a, "mig_devices").(map[string]any); v["1g.10gb"] != 2.0 {
		t.Errorf("mig_devices: got %v, want two 1g.10gb", v)
	}
}

func TestNVMLFails(t *testing.T) {
	for name, l := range map[string]fake{"an error": {err: errors.New("libnvidia-ml.so.1 is not there")}, "a driver that hangs": {hang: true}} {
		a := ask(t, l)
		if len(a.Devices) != 2 || len(a.Warnings) != 1 || fact(a, "cuda_version") != nil {
			t.Errorf("NVML with %s: got %+v, want two devices and a warning", name, a)
		}
	}
}

// TestBuild checks that the description depends on whether NVML is built in.
func TestBuild(t *testing.T) {
	for _, tt := range []struct {
		l    library
		doc  string
		asks int
	}{{nil, "built without NVML", 0}, {fake{}, "with NVML also memory", 2}} {
		d := Detector{"1.0.0", tt.l}.Describe()
		if !strings.Contains(d.Doc, tt.doc) || len(d.Wants.Devices) != tt.asks {
			t.Errorf("got doc %q, wants %v; want %q and %d devices", d.Doc, d.Wants, tt.doc, tt.asks)
		}
	}
}

func fact(a contract.Answer, name string) any {
	for _, f := range a.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return "no such fact"
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
