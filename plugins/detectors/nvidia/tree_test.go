package nvidia

import (
	"testing"

	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

func tree(t *testing.T, dir, version, information string) {
	t.Helper()
	var f fakeroot.Tree
	f.PCI(
		sdk.PCIDevice{
			Address:         "0000:17:00.0",
			Vendor:          "10de",
			Device:          "2330",
			SubsystemVendor: "10de",
			SubsystemDevice: "16c1",
			Class:           "030200",
			Driver:          "nvidia",
		},
	)
	f.File("/proc/driver/nvidia/version", version)
	f.File("/proc/driver/nvidia/gpus/0000:17:00.0/information", information)
	must(t, f.Write(dir))
}
