// libnvidia-ml.so.1 of a machine with two GPUs, one of them in MIG mode: what the detector "nvidia" asks, by the real
// header's declarations. Like the real one it opens the driver's control device first, and says no where it may not. Tests
// without such a device name another file in NVML_MOCK_CONTROL, the fabric's state in NVML_MOCK_FABRIC, and in
// NVML_MOCK_RECOVERY the recovery action of the GPU in MIG mode, which then has each other fault, too.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml.h"

static int gpus[2], instances[3];

// In go-nvml's copy of the header a device is a struct around the pointer, which is passed alike.
#define DEVICE(table, index) ((nvmlDevice_t){(void *)&(table)[index]})
#define INDEX(table, of) ((int *)(of).handle - (table))

nvmlReturn_t nvmlInit_v2(void) {
	const char *control = getenv("NVML_MOCK_CONTROL");
	int fd = open(control ? control : "/dev/nvidiactl", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		perror("NVML: /dev/nvidiactl");
		return NVML_ERROR_NO_PERMISSION;
	}
	close(fd);
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

static nvmlReturn_t say(char *to, unsigned int room, const char *text) {
	return (unsigned)snprintf(to, room, "%s", text) < room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) { return say(version, length, "570.86.15"); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { *version = 12080; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
	if (index > 1) return NVML_ERROR_INVALID_ARGUMENT;
	*device = DEVICE(gpus, index);
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
	memset(pci, 0, sizeof *pci);
	return say(pci->busId, sizeof pci->busId, INDEX(gpus, device) ? "00000000:3D:00.0" : "00000000:17:00.0");
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
	if (INDEX(instances, device) >= 0 && INDEX(instances, device) < 3)
		return say(name, length, INDEX(instances, device) == 2 ? "NVIDIA H100 80GB HBM3 MIG 3g.40gb" : "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
	return say(name, length, "NVIDIA H100 80GB HBM3");
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
	memory->total = 85520809984ULL; // 81559 MiB
	memory->free = memory->total;
	memory->used = 0;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch) { *arch = NVML_DEVICE_ARCH_HOPPER; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) { *major = 9; *minor = 0; return NVML_SUCCESS; }
static unsigned int recovery(nvmlDevice_t device) {
	const char *action = getenv("NVML_MOCK_RECOVERY");
	return action && INDEX(gpus, device) ? (unsigned)atoi(action) : NVML_GPU_RECOVERY_ACTION_NONE;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
	*current = INDEX(gpus, device) ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
	*pending = recovery(device) ? NVML_DEVICE_MIG_DISABLE : *current;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
	for (int i = 0; i < count; i++) {
		int isAction = values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
		values[i].nvmlReturn = isAction ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		values[i].value.uiVal = recovery(device);
	}
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
		unsigned int *isPending, unsigned int *hasFailed) {
	*corrected = 0;
	*uncorrected = *isPending = *hasFailed = recovery(device) != 0;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
		unsigned long long *addresses) {
	unsigned int room = *count;
	*count = recovery(device) ? 2 : 0;
	if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < *count; i++) addresses[i] = 0x10000ULL * (i + 1);
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *isPending) {
	*isPending = recovery(device) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
	*mode = recovery(device) ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode) {
	*mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
	return NVML_SUCCESS;
}
// A fabric of a rack. As the real one it refuses a structure of another version, whose fields are in other places.
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
	const char *state = getenv("NVML_MOCK_FABRIC");
	if (info->version != nvmlGpuFabricInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	for (int i = 0; i < NVML_GPU_FABRIC_UUID_LEN; i++) info->clusterUuid[i] = (unsigned char)(0xa0 + i);
	info->status = NVML_SUCCESS;
	info->cliqueId = 7;
	info->state = state ? (unsigned char)atoi(state) : NVML_GPU_FABRIC_STATE_COMPLETED;
	info->healthMask = 0xaa; // each flag: no
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) { *count = 7; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *instance) {
	if (index > 2) return NVML_ERROR_NOT_FOUND;
	*instance = DEVICE(instances, index);
	return NVML_SUCCESS;
}
const char *nvmlErrorString(nvmlReturn_t result) { return "an error of the mock"; }
