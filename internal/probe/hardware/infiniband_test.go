package hardware

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/world"
)

func hca(files map[string]string, address, device, port, state, rate, layer string) {
	folder := pciFolder + "/" + address + "/infiniband/" + device + "/"
	files[folder+"node_guid"] = "0002:c903:0000:0001\n"
	files[folder+"ports/"+port+"/state"], files[folder+"ports/"+port+"/rate"] = state, rate
	if layer != "" {
		files[folder+"ports/"+port+"/link_layer"] = layer
	}
}

func TestInfiniBand(t *testing.T) {
	files := map[string]string{
		netFolder + "/ib0/operstate": "up", netFolder + "/ib0/speed": "", netFolder + "/ib0/dev_port": "0",
		netFolder + "/ib1/operstate": "down", netFolder + "/ib1/dev_port": "1",
		netFolder + "/eth0/operstate": "up", netFolder + "/eth0/speed": "25000",
	}
	// One function, one device, two ports with an interface each: ConnectX-3.
	pci(files, "0000:01:00.0", "15b3:1003", "028000", "mlx4_core", map[string]string{"net/ib0/x": "", "net/ib1/x": ""})
	hca(files, "0000:01:00.0", "mlx4_0", "1", "4: ACTIVE", "56 Gb/sec (4X FDR)", "InfiniBand")
	hca(files, "0000:01:00.0", "mlx4_0", "2", "1: DOWN", "10 Gb/sec (4X SDR)", "InfiniBand")
	// RoCE: the speed is that of the interface.
	pci(files, "0000:02:00.0", "15b3:1015", "020000", "mlx5_core", map[string]string{"net/eth0/x": ""})
	hca(files, "0000:02:00.0", "mlx5_0", "1", "4: ACTIVE", "10 Gb/sec (1X QDR)", "Ethernet")
	// EFA has no interface.
	pci(files, "0000:03:00.0", "1d0f:efa0", "020000", "efa", nil)
	hca(files, "0000:03:00.0", "efa_0", "1", "4: ACTIVE", "100 Gb/sec (4X EDR)", "Unspecified")
	pci(files, "0000:04:00.0", "15b3:1021", "020700", "mlx5_core", nil)
	hca(files, "0000:04:00.0", "mlx5_1", "1", "", "", "")

	facts := detect(t, Options{Tree: tree(t, files)})
	var got []string
	for _, n := range facts.NICs {
		line := []string{*n.Address, text(n.Interface), text(n.Link), number(n.SpeedGbps)}
		for _, p := range n.InfiniBand {
			line = append(line, *p.Device, number(p.Port), text(p.LinkLayer), text(p.State), number(p.RateGbps))
		}
		got = append(got, strings.Join(line, " "))
	}
	want := []string{
		"0000:01:00.0 ib0 up 56 mlx4_0 1 infiniband active 56",
		"0000:01:00.0 ib1 down - mlx4_0 2 infiniband down 10",
		"0000:02:00.0 eth0 up 25 mlx5_0 1 ethernet active 10",
		"0000:03:00.0 - up 100 efa_0 1 unspecified active 100",
		"0000:04:00.0 - - - mlx5_1 1 - - -",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const guid = "0002:c903:0000:0001"
	if diff := cmp.Diff(
		map[string]string{"mlx4_0": guid, "mlx5_0": guid, "mlx5_1": guid, "efa_0": guid},
		facts.GUIDs,
	); diff != "" {
		t.Error(diff)
	}
	for fact, want := range map[string]string{
		"nics[0000:01:00.0 ib1].speed_gbps":                  "the link is down",
		"nics[0000:03:00.0].interface":                       "it has InfiniBand ports and no network interface",
		"nics[0000:04:00.0].link":                            "its InfiniBand port reports no state",
		"nics[0000:04:00.0].infiniband[mlx5_1/1].rate_gbps":  `the driver gives none ("")`,
		"nics[0000:04:00.0].infiniband[mlx5_1/1].link_layer": "the driver gives none",
		"nics[0000:02:00.0].infiniband[mlx5_0/1].rate_gbps":  "",
		"nics[0000:04:00.0].infiniband[mlx5_1/1].state":      `the driver gives none ("")`,
		"nics[0000:01:00.0].infiniband[mlx4_0/2].link_layer": "",
	} {
		if got := why(facts, fact); got != want {
			t.Errorf("%s: %q, want %q", fact, got, want)
		}
	}
}

func TestVirtualFunctionsKnowTheirCard(t *testing.T) {
	files := map[string]string{}
	pci(
		files,
		"0000:02:00.0",
		"8086:1572",
		"020000",
		"i40e",
		map[string]string{"sriov_totalvfs": "64", "sriov_numvfs": "2"},
	)
	pci(files, "0000:02:02.0", "8086:154c", "020000", "iavf", map[string]string{"physfn": "-> ../0000:02:00.0"})
	pci(files, "0000:02:02.1", "8086:154c", "020000", "vfio-pci", map[string]string{"physfn": "-> ../0000:02:00.0"})
	facts := detect(t, Options{Tree: tree(t, files)})
	var got []string
	for _, f := range facts.PCI {
		got = append(got, f.Address+" "+text(f.PhysFn))
	}
	if diff := cmp.Diff(
		[]string{"0000:02:00.0 -", "0000:02:02.0 0000:02:00.0", "0000:02:02.1 0000:02:00.0"},
		got,
	); diff != "" {
		t.Error(diff)
	}
	if len(facts.NICs) != 1 || *facts.NICs[0].SRIOV.NumVFs != 2 || *facts.NICs[0].SRIOV.TotalVFs != 64 {
		t.Errorf("%d cards: %+v", len(facts.NICs), facts.NICs)
	}
	if got := facts.Evidence["pci[].physfn"]; got != "/"+pciFolder+"/{address}/physfn" {
		t.Errorf("evidence %q", got)
	}
}

func TestPCIeLink(t *testing.T) {
	tests := map[string]struct {
		speed, width, maxSpeed, maxWidth string
		want                             string
		why                              string
	}{
		"today's kernel": {"16.0 GT/s PCIe\n", "8\n", "32.0 GT/s PCIe\n", "16\n", "16x8 of 32x16", ""},
		"Linux 4":        {"8 GT/s", "16", "8 GT/s", "16", "8x16 of 8x16", ""},
		"half of it": {
			"Unknown",
			"0",
			"2.5 GT/s PCIe",
			"1",
			"-x- of 2.5x1",
			`the kernel gives current_link_width "0"`,
		},
		"255 lanes": {
			"5.0 GT/s PCIe",
			"255",
			"5.0 GT/s PCIe",
			"255",
			"5x- of 5x-",
			`the kernel gives max_link_width "255"`,
		},
		"none":     {"-", "-", "-", "-", "-x- of -x-", "the kernel shows no PCI Express link"},
		"nonsense": {"NaN GT/s", "-4", "1e99 GT/s", "x", "-x- of -x-", `the kernel gives max_link_width "x"`},
		"other than speed": {
			"16.0 Gb/s",
			"8",
			"16.0 GT/s PCIe",
			"8",
			"-x8 of 16x8",
			`the kernel gives current_link_speed "16.0 Gb/s"`,
		},
	}
	for name, tt := range tests {
		files := map[string]string{}
		pci(
			files,
			"0000:01:00.0",
			"10de:2330",
			"030200",
			"",
			map[string]string{"current_link_speed": tt.speed, "current_link_width": tt.width,
				"max_link_speed": tt.maxSpeed, "max_link_width": tt.maxWidth},
		)
		facts := detect(t, Options{Tree: tree(t, files)})
		l := facts.Accelerators[0].PCIe
		if got := number(l.GTs) + "x" + number(
			l.Width,
		) + " of " + number(
			l.MaxGTs,
		) + "x" + number(
			l.MaxWidth,
		); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if got := why(facts, "accelerators[0000:01:00.0].pcie"); got != tt.why {
			t.Errorf("%s: %q, want %q", name, got, tt.why)
		}
	}
}

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
		for _, name := range []string{"uevent", "vendor", "class", "numa_node", "current_link_speed", "current_link_width", "sriov_totalvfs", "sriov_numvfs",
			"infiniband/x/ports/1/state", "infiniband/x/ports/1/rate", "net/eth0/x", "mem_info_vram_total"} {
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
		facts := detect(t, Options{Tree: tree(t, files)})
		if !slicesContainDevice(facts.PCI, "0000:02:00.0") {
			t.Errorf("%q in one device: want the other device, too", s)
		}
	})
}

func slicesContainDevice(list []world.PCIDevice, address string) bool {
	for _, f := range list {
		if f.Address == address {
			return true
		}
	}
	return false
}
