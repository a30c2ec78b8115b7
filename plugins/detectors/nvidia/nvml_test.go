//go:build linux && cgo && nvml

package nvidia

import (
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
		GetMaxMigDeviceCountFunc:     func() (int, nvml.Return) { return 7, nvml.SUCCESS },
		GetMigDeviceHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if i > 1 {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return migDevice, nvml.SUCCESS
		},
	}
	return &mock.Interface{
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

func TestQuery(t *testing.T) {
	m, err := realNVML{mocked()}.query()
	if err != nil {
		t.Fatal(err)
	}
	if m.driver != "550.54.15" || m.cuda != "12.4" || len(m.gpus) != 1 {
		t.Fatalf("%+v", m)
	}
	g := m.gpus[0]
	if g.address != "0000:3b:00.0" || g.memory != 40<<30 || g.family != "ampere" || g.compute != "8.0" ||
		g.mig != "enabled" ||
		len(g.migDevices) != 2 ||
		g.migDevices[0] != "1g.5gb" {
		t.Errorf("%+v", g)
	}
}

// TestNoLibrary is of a machine without the driver: most that run this test.
func TestNoLibrary(t *testing.T) {
	_, err := buildLibrary().query()
	if err == nil {
		t.Skip("this machine has NVML")
	}
	t.Log(err)
}

func TestRefused(t *testing.T) {
	l := mocked()
	l.InitFunc = func() nvml.Return { return nvml.ERROR_NO_PERMISSION }
	if _, err := (realNVML{l}).query(); err == nil {
		t.Error("no error")
	}
	l = mocked()
	l.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
	if _, err := (realNVML{l}).query(); err == nil {
		t.Error("all GPUs are lost, and no error")
	}
}
