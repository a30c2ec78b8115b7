//go:build linux && cgo && nvml

package nvidia

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func buildLibrary() library { return newNVML(nvml.New()) }

// realNVML uses go-nvml, which opens libnvidia-ml.so.1 in Init.
type realNVML struct {
	nvml.Interface

	fabricOf func(nvml.Device) (nvml.GpuFabricInfo_v2, nvml.Return)
}

func newNVML(l nvml.Interface) realNVML {
	return realNVML{
		Interface: l,
		fabricOf: func(d nvml.Device) (nvml.GpuFabricInfo_v2, nvml.Return) {
			return d.GetGpuFabricInfoV().V2()
		},
	}
}

// open implements library.
func (l realNVML) open() (out machine, gpus int, err error) {
	if r := l.Init(); r != nvml.SUCCESS {
		out.isMismatch = r == nvml.ERROR_LIB_RM_VERSION_MISMATCH
		return out, 0, fmt.Errorf("nvmlInit: %s", describe(r))
	}
	if v, r := l.SystemGetDriverVersion(); r == nvml.SUCCESS {
		out.driver = v
	}
	if v, r := l.SystemGetCudaDriverVersion(); r == nvml.SUCCESS {
		out.cuda = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	n, r := l.DeviceGetCount()
	if r != nvml.SUCCESS {
		return out, 0, fmt.Errorf("nvmlDeviceGetCount: %s", describe(r))
	}

	return out, n, nil
}

// close implements library.
func (l realNVML) close() { l.Shutdown() }

// gpu implements library.
func (l realNVML) gpu(i int) (g gpu, err error) {
	d, r := l.DeviceGetHandleByIndex(i)
	if r != nvml.SUCCESS {
		return g, failure(r)
	}
	g, err = gpuOf(d)
	if err != nil {
		return g, err
	}

	// A library of an older driver lacks functions, and a call of one would end this program.
	has := func(symbol string) bool { return l.Extensions().LookupSymbol(symbol) == nil }
	if has("nvmlDeviceGetGpuFabricInfoV") {
		g.fabric = l.readFabric(d)
	}
	g.health = readHealth(d, has)
	if g.whyNoMIG == "" {
		g.health.migPending = new(g.nextMIG != g.mig)
	}

	return g, nil
}

// recoverDomain is NVML's action for the GPUs of several machines. The header of this go-nvml is older, and lacks it.
const recoverDomain nvml.DeviceGpuRecoveryAction = 5

// readHealth returns the health of a GPU from NVML. has reports whether the library has a function.
func readHealth(d nvml.Device, has func(symbol string) bool) (h health) {
	if has("nvmlDeviceGetFieldValues") {
		fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
		r := d.GetFieldValues(fields)
		f := fields[0]
		switch r = cmp.Or(r, nvml.Return(f.NvmlReturn)); r {
		case nvml.SUCCESS:
			n := nvml.DeviceGpuRecoveryAction(binary.NativeEndian.Uint32(f.Value[:4]))
			h.recovery = map[nvml.DeviceGpuRecoveryAction]string{
				nvml.GPU_RECOVERY_ACTION_NONE:            "none",
				nvml.GPU_RECOVERY_ACTION_GPU_RESET:       "gpu-reset",
				nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:     "node-reboot",
				nvml.GPU_RECOVERY_ACTION_DRAIN_P2P:       "drain-p2p",
				nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "drain-and-reset",
				recoverDomain:                            "none", // nothing is wrong with this GPU, or this machine
			}[n]
			if h.recovery == "" {
				h.whyNoRecovery = fmt.Sprintf("action %d is not known to this detector", n)
			}
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT: // an older driver
		default:
			h.whyNoRecovery = describe(r)
		}
	}
	if has("nvmlDeviceGetRemappedRows") {
		if _, _, isPending, hasFailed, r := d.GetRemappedRows(); r == nvml.SUCCESS {
			h.failed, h.pending = &hasFailed, &isPending
		}
	}
	isOn := func(state nvml.EnableState, r nvml.Return) *bool {
		if r != nvml.SUCCESS {
			return nil
		}
		return new(state == nvml.FEATURE_ENABLED)
	}
	if has("nvmlDeviceGetRetiredPagesPendingStatus") {
		h.pagePending = isOn(d.GetRetiredPagesPendingStatus())
	}
	if has("nvmlDeviceGetRetiredPages") {
		h.retiredPages = countRetired(d)
	}
	if has("nvmlDeviceGetPersistenceMode") {
		h.persistence = isOn(d.GetPersistenceMode())
	}

	return h
}

// countRetired returns how many pages a GPU has retired for errors of one or two bits; nil if it reports none of them.
func countRetired(d nvml.Device) *int {
	count := 0
	for cause := range nvml.PageRetirementCause(nvml.PAGE_RETIREMENT_CAUSE_COUNT) {
		pages, r := d.GetRetiredPages(cause)
		if r != nvml.SUCCESS {
			return nil
		}
		count += len(pages)
	}

	return &count
}

// readFabric returns the state of a GPU's NVLink fabric. A fabric that has completed with an error has failed.
func (l realNVML) readFabric(d nvml.Device) (f fabric) {
	info, r := l.fabricOf(d)
	if r == nvml.ERROR_NOT_SUPPORTED {
		return fabric{state: fabricNotSupported}
	}
	if r != nvml.SUCCESS {
		return fabric{}
	}

	f.state = map[uint8]string{
		nvml.GPU_FABRIC_STATE_NOT_SUPPORTED: fabricNotSupported,
		nvml.GPU_FABRIC_STATE_NOT_STARTED:   fabricNotStarted,
		nvml.GPU_FABRIC_STATE_IN_PROGRESS:   fabricInProgress,
		nvml.GPU_FABRIC_STATE_COMPLETED:     fabricCompleted,
	}[info.State]
	if f.state != fabricCompleted {
		return f
	}
	if nvml.Return(info.Status) != nvml.SUCCESS {
		f.state = fabricFailed
		return f
	}

	f.health = summarizeHealth(info.HealthMask)
	if info.ClusterUuid != [16]uint8{} {
		u := info.ClusterUuid
		f.cluster = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		f.clique = int(info.CliqueId)
	}

	return f
}

// summarizeHealth returns the health in a mask, "" if the GPU reports none. Each field of the mask has two bits, of
// which 1 is bad and 2 is good, and the last one four bits, of which 1 is good and more is bad.
// Source: nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_….
func summarizeHealth(mask uint32) string {
	const isTrue = 1
	field := func(shift int, width uint32) uint32 { return mask >> shift & width }

	degraded := field(nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW)
	recovery := field(nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_RECOVERY)
	route := field(nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_UNHEALTHY)
	timeout := field(
		nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY,
		nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ACCESS_TIMEOUT_RECOVERY,
	)
	wrong := mask >> 8 & 0xf // INCORRECT_CONFIGURATION: since driver 570

	switch {
	case mask == 0:
		return ""
	case route == isTrue || timeout == isTrue || wrong > 1:
		return unhealthy
	case degraded == isTrue || recovery == isTrue:
		return limitedCapacity
	}

	return healthy
}

// describe returns the text of an error. nvmlErrorString needs the library.
func describe(r nvml.Return) string {
	switch r {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "libnvidia-ml.so.1 does not exist"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded, or its devices are not granted (allow { devices = [\"/dev/nvidia*\"] })"
	case nvml.ERROR_NO_PERMISSION:
		return errDenied.Error()
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the versions of library and loaded driver differ: reboot, or load the driver again"
	case nvml.ERROR_GPU_IS_LOST:
		return "it has fallen off the bus"
	}
	return "error " + strconv.Itoa(int(r))
}

// failure returns the error of a GPU that does not answer.
func failure(r nvml.Return) error {
	if r == nvml.ERROR_NO_PERMISSION {
		return errDenied
	}
	return errors.New(describe(r))
}

func gpuOf(d nvml.Device) (g gpu, err error) {
	info, r := d.GetPciInfo()
	if r != nvml.SUCCESS {
		return g, failure(r)
	}
	if g.address, err = sysfsAddress(info.BusId[:]); err != nil {
		return g, err
	}
	if s, r := d.GetName(); r == nvml.SUCCESS {
		g.name = s
	}
	if m, r := d.GetMemoryInfo(); r == nvml.SUCCESS {
		g.memory = m.Total
	}
	if a, r := d.GetArchitecture(); r == nvml.SUCCESS {
		g.family = families()[a]
	}
	if major, minor, r := d.GetCudaComputeCapability(); r == nvml.SUCCESS {
		g.compute = fmt.Sprintf("%d.%d", major, minor)
	}
	if mode, r := d.GetVirtualizationMode(); r == nvml.SUCCESS {
		g.virtualization = map[nvml.GpuVirtualizationMode]string{
			nvml.GPU_VIRTUALIZATION_MODE_NONE:        "none",
			nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "passthrough",
			nvml.GPU_VIRTUALIZATION_MODE_VGPU:        "vgpu",
			nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU:   "host-vgpu",
			nvml.GPU_VIRTUALIZATION_MODE_HOST_VSGA:   "host-vsga",
		}[mode]
	}
	mode, next, r := d.GetMigMode()
	if r == nvml.ERROR_NOT_SUPPORTED { // this kind has no MIG
		return g, nil
	}
	if r != nvml.SUCCESS {
		g.whyNoMIG = describe(r)
		return g, nil
	}
	modes := map[bool]string{false: "disabled", true: "enabled"}
	g.mig, g.nextMIG = modes[mode == nvml.DEVICE_MIG_ENABLE], modes[next == nvml.DEVICE_MIG_ENABLE]
	if mode == nvml.DEVICE_MIG_ENABLE {
		g.migDevices = migProfiles(d)
	}

	return g, nil
}

// sysfsAddress converts NVML's 00000000:17:00.0 to sysfs' 0000:17:00.0.
func sysfsAddress(id []int8) (string, error) {
	b := make([]byte, len(id))
	for i, c := range id {
		b[i] = byte(c)
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	domain, rest, ok := strings.Cut(strings.ToLower(s), ":")
	n, err := strconv.ParseUint(domain, 16, 32)
	if !ok || err != nil {
		return "", fmt.Errorf("invalid bus id %q from NVML", s)
	}
	return fmt.Sprintf("%04x:%s", n, rest), nil
}

// migProfiles returns the profile of each MIG device: the end of its name.
func migProfiles(d nvml.Device) (out []string) {
	n, r := d.GetMaxMigDeviceCount()
	if r != nvml.SUCCESS {
		return nil
	}
	for i := range n {
		m, r := d.GetMigDeviceHandleByIndex(i)
		if r != nvml.SUCCESS { // NOT_FOUND: an empty slot
			continue
		}
		if name, r := m.GetName(); r == nvml.SUCCESS {
			_, profile, ok := strings.Cut(name, " MIG ")
			if ok {
				out = append(out, strings.TrimSpace(profile))
			}
		}
	}
	return out
}

func families() map[nvml.DeviceArchitecture]string {
	return map[nvml.DeviceArchitecture]string{
		nvml.DEVICE_ARCH_KEPLER:    "kepler",
		nvml.DEVICE_ARCH_MAXWELL:   "maxwell",
		nvml.DEVICE_ARCH_PASCAL:    "pascal",
		nvml.DEVICE_ARCH_VOLTA:     "volta",
		nvml.DEVICE_ARCH_TURING:    "turing",
		nvml.DEVICE_ARCH_AMPERE:    "ampere",
		nvml.DEVICE_ARCH_ADA:       "ada-lovelace",
		nvml.DEVICE_ARCH_HOPPER:    "hopper",
		nvml.DEVICE_ARCH_BLACKWELL: "blackwell",
	}
}
