package hardware

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

func FuzzDeviceTexts(f *testing.F) {
	for _, s := range []string{"16.0 GT/s PCIe", "8", "4: ACTIVE", "200 Gb/sec (4X HDR)", "Unknown", "-1", "pf0vf1", "pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00",
		"0000:1b:00.0", "Size: 3f0000000", "simd_count 304\nlocation_id 3072\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if gts := parseGTs(s); gts != nil && !(*gts > 0 && *gts <= 1024) {
			t.Errorf("%q: got %v GT/s, want more than 0 and at most 1024", s, *gts)
		}
		if lanes := parseLanes(s); lanes != nil && (*lanes < 1 || *lanes > 64) {
			t.Errorf("%q: got %d lanes, want 1 to 64", s, *lanes)
		}
		if rate := parsePortRate(s); rate != nil && !(*rate > 0 && *rate <= maxMbps/1000) {
			t.Errorf("%q: got %v Gbit/s, want a possible rate", s, *rate)
		}
		if state := parsePortState(s); state != nil && (*state == "" || strings.ToLower(*state) != *state) {
			t.Errorf("%q: got the state %q, want a word", s, *state)
		}
		if subsystem, ok := modaliasSubsystem(s); ok && len(subsystem) != len("10de:118f") {
			t.Errorf("%q: got the subsystem %q, want four digits, a colon and four digits", s, subsystem)
		}
		isRepresentor(s)
		// Whatever a device says, the others stay.
		files := map[string]string{}
		more := map[string]string{}
		for _, name := range strings.Fields(`
			uevent vendor class numa_node current_link_speed current_link_width sriov_totalvfs sriov_numvfs
			infiniband/x/ports/1/state infiniband/x/ports/1/rate net/eth0/x mem_info_vram_total
		`) {
			more[name] = s
		}
		pci(files, "0000:01:00.0", "10de:2330", "030200", "nvidia", more)
		pci(files, "0000:02:00.0", "15b3:1015", "020000", "mlx5_core", map[string]string{"net/eth0/x": ""})
		files[netFolder+"/eth0/operstate"], files[netFolder+"/eth0/speed"], files[netFolder+"/eth0/phys_port_name"] = s, s, s
		files["proc/driver/nvidia/gpus/0000:01:00.0/information"], files["proc/driver/nvidia/gpus/0000:01:00.0/numa_status"] = s, s
		for _, name := range []string{"/0/properties", "/0/mem_banks/0/properties"} {
			files[kfdNodes+name] = "simd_count 4\nheap_type 1\n" + s
		}
		files[pciFolder+"/0000:01:00.0/vendor"] = "0x1002" // whose memory is in KFD's files
		facts := detect(t, ReadOptions{Tree: tree(t, files)})
		if !slices.ContainsFunc(facts.PCI, func(f tape.PCIDevice) bool { return f.Address == "0000:02:00.0" }) {
			t.Errorf("%q in one device: want the other device, too", s)
		}
	})
}
