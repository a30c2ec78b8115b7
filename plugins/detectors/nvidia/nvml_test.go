//go:build linux && cgo && nvml

package nvidia

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// mocked is one healthy GPU in MIG mode and one that has fallen off the bus.
func mocked() *mock.Interface {
	migDevice := &mock.Device{
		GetNameFunc: func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb", nvml.SUCCESS },
	}
	good := &mock.Device{
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			var p nvml.PciInfo
			for i, c := range []byte("00000000:3B:00.0") {
				p.BusId[i] = int8(c)
			}
			return p, nvml.SUCCESS
		},
		GetNameFunc:                  func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB", nvml.SUCCESS },
		GetMemoryInfoFunc:            func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 40 << 30}, nvml.SUCCESS },
		GetArchitectureFunc:          func() (nvml.DeviceArchitecture, nvml.Return) { return nvml.DEVICE_ARCH_AMPERE, nvml.SUCCESS },
		GetCudaComputeCapabilityFunc: func() (int, int, nvml.Return) { return 8, 0, nvml.SUCCESS },
		GetMigModeFunc:               func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS },
		GetVirtualizationModeFunc: func() (nvml.GpuVirtualizationMode, nvml.Return) {
			return nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU, nvml.SUCCESS
		},
		GetFieldValuesFunc: func(values []nvml.FieldValue) nvml.Return {
			for i := range values {
				values[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED) // a driver before 565
			}
			return nvml.SUCCESS
		},
		GetRemappedRowsFunc:              func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, false, nvml.SUCCESS },
		GetRetiredPagesPendingStatusFunc: func() (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
		GetRetiredPagesFunc: func(c nvml.PageRetirementCause) ([]uint64, nvml.Return) {
			return make([]uint64, 2+c), nvml.SUCCESS
		},
		GetPersistenceModeFunc:   func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS },
		GetMaxMigDeviceCountFunc: func() (int, nvml.Return) { return 7, nvml.SUCCESS },
		GetMigDeviceHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if i > 1 {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return migDevice, nvml.SUCCESS
		},
	}
	return &mock.Interface{
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
		},
		InitFunc:                       func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:                   func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc:     func() (string, nvml.Return) { return "550.54.15", nvml.SUCCESS },
		SystemGetCudaDriverVersionFunc: func() (int, nvml.Return) { return 12040, nvml.SUCCESS },
		DeviceGetCountFunc:             func() (int, nvml.Return) { return 2, nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if i == 1 {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return good, nvml.SUCCESS
		},
	}
}

// query asks a mock, whose GPUs have this fabric.
func query(l nvml.Interface, info nvml.GpuFabricInfo_v2, r nvml.Return) (machine, error) {
	fabricOf := func(nvml.Device) (nvml.GpuFabricInfo_v2, nvml.Return) { return info, r }
	return askAll(context.Background(), realNVML{l, fabricOf})
}

func TestQuery(t *testing.T) {
	m, err := query(mocked(), nvml.GpuFabricInfo_v2{}, nvml.ERROR_NOT_SUPPORTED)
	must(t, err)
	if len(m.failures) != 1 || len(m.undecided) > 0 || m.failures[0] != "GPU 1: it has fallen off the bus" || m.gpus[0].virtualization != "host-vgpu" {
		t.Errorf("got failures %q, virtualization %q; want GPU 1 and host-vgpu", m.failures, m.gpus[0].virtualization)
	}
	if m.driver != "550.54.15" || m.cuda != "12.4" || len(m.gpus) != 1 {
		t.Fatalf("%+v", m)
	}
	g := m.gpus[0]
	if g.address != "0000:3b:00.0" || g.memory != 40<<30 || g.family != "ampere" || g.compute != "8.0" ||
		g.mig != "enabled" ||
		len(g.migDevices) != 2 ||
		g.migDevices[0] != "1g.5gb" || *g.health.migPending || *g.health.retiredPages != 2+3 {
		t.Errorf("%+v", g)
	}

	l := mocked()
	d, _ := l.DeviceGetHandleByIndex(0)
	d.(*mock.Device).GetMigModeFunc = func() (int, int, nvml.Return) {
		return nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS
	}
	m, err = query(l, nvml.GpuFabricInfo_v2{}, nvml.ERROR_NOT_SUPPORTED)
	if err != nil || m.gpus[0].mig != "disabled" || m.gpus[0].nextMIG != "enabled" || !*m.gpus[0].health.migPending {
		t.Errorf("a mode that waits for a reset: got %+v, %v; want disabled, then enabled", m.gpus, err)
	}

	for r, want := range map[nvml.Return]string{nvml.ERROR_NOT_SUPPORTED: "", nvml.ERROR_GPU_IS_LOST: "it has fallen off the bus"} {
		d.(*mock.Device).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, r }
		m, err = query(l, nvml.GpuFabricInfo_v2{}, nvml.ERROR_NOT_SUPPORTED)
		if err != nil || m.gpus[0].whyNoMIG != want || (m.gpus[0].health.migPending != nil) != (want == "") {
			t.Errorf("MIG, error %d: got %+v, %v; want it unknown because %q", r, m.gpus, err, want)
		}
	}
	l.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		return d, []nvml.Return{nvml.SUCCESS, nvml.ERROR_NO_PERMISSION}[i]
	}
	m, err = query(l, nvml.GpuFabricInfo_v2{}, nvml.ERROR_NOT_SUPPORTED)
	if err != nil || len(m.undecided) != 1 || !strings.Contains(m.undecided[0], "no permission") {
		t.Errorf("one that may not be opened: got undecided %q, %v; want it", m.undecided, err)
	}
}

// TestReadHealth: what NVML reports of one GPU's health, by drivers with and without each function.
func TestReadHealth(t *testing.T) {
	action := func(n byte, r nvml.Return) *mock.Device {
		return &mock.Device{
			GetFieldValuesFunc: func(values []nvml.FieldValue) nvml.Return {
				if len(values) != 1 || values[0].FieldId != nvml.FI_DEV_GET_GPU_RECOVERY_ACTION {
					t.Errorf("got %+v, want the recovery action asked for", values)
				}
				values[0].NvmlReturn, values[0].Value = uint32(r), [8]byte{n}
				return nvml.SUCCESS
			},
			GetRemappedRowsFunc: func() (int, int, bool, bool, nvml.Return) { return 0, 9, false, true, nvml.SUCCESS },
			GetRetiredPagesPendingStatusFunc: func() (nvml.EnableState, nvml.Return) {
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			},
			GetRetiredPagesFunc: func(c nvml.PageRetirementCause) ([]uint64, nvml.Return) {
				return make([]uint64, 2+c), nvml.SUCCESS
			},
			GetPersistenceModeFunc: func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS },
		}
	}
	has := func(string) bool { return true }
	for n, want := range []string{"none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset", "none", ""} {
		h := readHealth(action(byte(n), nvml.SUCCESS), has)
		if h.recovery != want || (h.whyNoRecovery == "") != (want != "") {
			t.Errorf("action %d: got %q, unknown because %q; want %q", n, h.recovery, h.whyNoRecovery, want)
		}
		if !*h.failed || *h.pending || !*h.pagePending || *h.persistence {
			t.Errorf("action %d: got %t, %t, %t, %t; want true, false, true, false",
				n, *h.failed, *h.pending, *h.pagePending, *h.persistence)
		}
	}
	for r, want := range map[nvml.Return]string{
		nvml.ERROR_NOT_SUPPORTED: "", nvml.ERROR_INVALID_ARGUMENT: "", nvml.ERROR_GPU_IS_LOST: "it has fallen off the bus",
	} {
		if h := readHealth(action(1, r), has); h.recovery != "" || h.whyNoRecovery != want {
			t.Errorf("error %d: got %q, unknown because %q; want none, because %q", r, h.recovery, h.whyNoRecovery, want)
		}
	}
	// A call of a function that the library lacks would end the detector: the device here has none.
	if h := readHealth(&mock.Device{}, func(string) bool { return false }); h != (health{}) {
		t.Errorf("a library without the functions: got %+v, want nothing", h)
	}
}

// TestNoLibrary is of a machine without the driver: most that run this test.
func TestNoLibrary(t *testing.T) {
	_, _, err := buildLibrary().open()
	if err == nil {
		t.Skip("this machine has NVML")
	}
	t.Log(err)
}

func TestRefused(t *testing.T) {
	l := mocked()
	l.InitFunc = func() nvml.Return { return nvml.ERROR_NO_PERMISSION }
	if _, err := query(l, nvml.GpuFabricInfo_v2{}, nvml.SUCCESS); err == nil {
		t.Error("no error")
	}
	l = mocked()
	l.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
	if _, err := query(l, nvml.GpuFabricInfo_v2{}, nvml.SUCCESS); err == nil {
		t.Error("all GPUs are lost, and no error")
	}
}

// TestFabricInfo: what NVML reports of one GPU's fabric, and what it means.
func TestFabricInfo(t *testing.T) {
	rack := [16]uint8{0xa0, 15: 1}
	const name = "a0000000-0000-0000-0000-000000000001"
	done := nvml.GpuFabricInfo_v2{State: nvml.GPU_FABRIC_STATE_COMPLETED, ClusterUuid: rack, CliqueId: 7}
	with := func(change func(*nvml.GpuFabricInfo_v2)) nvml.GpuFabricInfo_v2 {
		i := done
		change(&i)
		return i
	}

	for what, tt := range map[string]struct {
		info nvml.GpuFabricInfo_v2
		r    nvml.Return
		want fabric
	}{
		"not supported": {r: nvml.ERROR_NOT_SUPPORTED, want: fabric{state: fabricNotSupported}},
		"no answer":     {r: nvml.ERROR_UNKNOWN},
		"completed":     {done, nvml.SUCCESS, fabric{fabricCompleted, "", name, 7}},
		"in progress": {with(func(i *nvml.GpuFabricInfo_v2) { i.State = nvml.GPU_FABRIC_STATE_IN_PROGRESS }), nvml.SUCCESS,
			fabric{state: fabricInProgress}},
		"not started": {with(func(i *nvml.GpuFabricInfo_v2) { i.State = nvml.GPU_FABRIC_STATE_NOT_STARTED }), nvml.SUCCESS,
			fabric{state: fabricNotStarted}},
		"a new state": {with(func(i *nvml.GpuFabricInfo_v2) { i.State = 9 }), nvml.SUCCESS, fabric{}},
		"completed with an error": {with(func(i *nvml.GpuFabricInfo_v2) { i.Status = uint32(nvml.ERROR_UNKNOWN) }), nvml.SUCCESS,
			fabric{state: fabricFailed}},
		"of this machine only": {with(func(i *nvml.GpuFabricInfo_v2) { i.ClusterUuid = [16]uint8{} }), nvml.SUCCESS,
			fabric{state: fabricCompleted}},
		"healthy": {with(func(i *nvml.GpuFabricInfo_v2) { i.HealthMask = 0x1aa }), nvml.SUCCESS,
			fabric{fabricCompleted, healthy, name, 7}},
		"degraded bandwidth": {with(func(i *nvml.GpuFabricInfo_v2) { i.HealthMask = 0xa9 }), nvml.SUCCESS,
			fabric{fabricCompleted, limitedCapacity, name, 7}},
		"unhealthy route": {with(func(i *nvml.GpuFabricInfo_v2) { i.HealthMask = 0x9a }), nvml.SUCCESS,
			fabric{fabricCompleted, unhealthy, name, 7}},
		"wrong configuration": {with(func(i *nvml.GpuFabricInfo_v2) { i.HealthMask = 0x2aa }), nvml.SUCCESS,
			fabric{fabricCompleted, unhealthy, name, 7}},
	} {
		m, err := query(mocked(), tt.info, tt.r)
		if err != nil || m.gpus[0].fabric != tt.want {
			t.Errorf("%s: got %+v, %v; want %+v", what, m.gpus[0].fabric, err, tt.want)
		}
	}
}

// TestOldLibrary: a library without the function is not asked for the fabric, which would end the program.
func TestOldLibrary(t *testing.T) {
	l := mocked()
	l.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error { return os.ErrNotExist }}
	}
	m, err := askAll(t.Context(), newNVML(l))
	if err != nil || m.gpus[0].fabric != (fabric{}) {
		t.Errorf("got %+v, %v; want no fabric and no error", m.gpus, err)
	}
}

// TestLibrary asks a real library: a mock of libnvidia-ml.so.1 that is built with the real header, and checks the version
// of the structure for the fabric. One of its GPUs is healthy, and then has each fault.
func TestLibrary(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	must(t, err)
	file := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	header := filepath.Join(strings.TrimSpace(string(dir)), "pkg/nvml")
	const source = "../../../test/detectors/nvml/mock.c"
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-I", header, "-o", file, source).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: got %v, want no error:\n%s", err, out)
	}

	t.Setenv("NVML_MOCK_CONTROL", "/dev/null")
	m, err := askAll(t.Context(), newNVML(nvml.New(nvml.WithLibraryPath(file))))
	if err != nil || len(m.gpus) != 2 {
		t.Fatalf("got %+v, %v; want two GPUs", m, err)
	}
	want := fabric{fabricCompleted, healthy, "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf", 7}
	if g := m.gpus[1]; g.fabric != want || g.virtualization != "none" || len(g.migDevices) != 3 {
		t.Errorf("got %+v, want fabric %+v, virtualization none, three MIG devices", g, want)
	}

	for action, want := range map[string]string{
		"0": "none [] 0 0 0 0 0 true false", "1": "gpu-reset [0000:3d:00.0] 1 1 1 4 1 false false",
		"2": "node-reboot [0000:3d:00.0] 1 1 1 4 1 false false",
	} {
		t.Setenv("NVML_MOCK_RECOVERY", action)
		m, err := askAll(t.Context(), newNVML(nvml.New(nvml.WithLibraryPath(file))))
		if err != nil {
			t.Fatalf("recovery action %s: got %v, want no error", action, err)
		}
		if got := healthOf(t, fake{machine: m}); got != want {
			t.Errorf("recovery action %s: got %s, want %s", action, got, want)
		}
	}
}
