package hardware

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/world"
)

func TestSpeedAndLink(t *testing.T) {
	tests := map[string]struct {
		state, carrier, speed string
		speedErr              error
		link, gbps            any
		why                   string // of the speed
	}{
		"up":                      {"up", "1", "25000", nil, "up", 25.0, ""},
		"2.5G":                    {"up", "1", "2500", nil, "up", 2.5, ""},
		"down, and a stale speed": {"down", "0", "10000", nil, "down", nil, "the link is down"},
		"lower layer down":        {"lowerlayerdown", "0", "10000", nil, "down", nil, "the link is down"},
		"-1":                      {"up", "1", "-1", nil, "up", nil, `the driver gives no speed ("-1")`},
		"empty":                   {"up", "1", "", nil, "up", nil, `the driver gives no speed ("")`},
		"Unknown!": {
			"up",
			"1",
			"Unknown!",
			nil,
			"up",
			nil,
			`the driver gives no speed ("Unknown!")`,
		},
		"zero": {"up", "1", "0", nil, "up", nil, `the driver gives no speed ("0")`},
		"unsigned -1": {
			"up",
			"1",
			"4294967295",
			nil,
			"up",
			nil,
			`the driver gives no speed ("4294967295")`,
		},
		"sixteen bits of -1": {"up", "1", "65535", nil, "up", nil, `the driver gives no speed ("65535")`},
		"EINVAL":             {"up", "1", "1000", syscall.EINVAL, "up", nil, "the driver gives no speed"},
		"EIO": {
			"up",
			"1",
			"1000",
			syscall.EIO,
			"up",
			nil,
			"cannot read /sys/class/net/eth0/speed: input/output error",
		},
		"no file":                     {"up", "1", "-", nil, "up", nil, "there is no /sys/class/net/eth0/speed"},
		"unknown state, carrier":      {"unknown", "1", "1000", nil, "up", 1.0, ""},
		"unknown state, no carrier":   {"unknown", "0", "1000", nil, "down", nil, "the link is down"},
		"unknown state, and disabled": {"unknown", "EINVAL", "1000", nil, "down", nil, "the link is down"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"sys/class/net/eth0/operstate": tt.state,
				"sys/class/net/eth0/carrier":   tt.carrier,
			}
			if tt.speed != "-" {
				files["sys/class/net/eth0/speed"] = tt.speed
			}
			pci(files, "0000:01:00.0", "15b3:1015", "020000", "mlx5_core", map[string]string{"net/eth0/x": ""})
			errs := map[string]error{"sys/class/net/eth0/speed": tt.speedErr}
			if tt.carrier == "EINVAL" {
				errs["sys/class/net/eth0/carrier"] = syscall.EINVAL
			}
			facts := detect(t, Options{Tree: faulty{Tree: tree(t, files), errs: errs}})
			nic := facts.NICs[0]
			if value(nic.Link) != tt.link || value(nic.SpeedGbps) != tt.gbps || value(nic.Interface) != "eth0" {
				t.Errorf("%v is %v at %v; want %v at %v",
					value(nic.Interface), value(nic.Link), value(nic.SpeedGbps), tt.link, tt.gbps)
			}
			if got := why(facts, "nics[0000:01:00.0].speed_gbps"); got != tt.why {
				t.Errorf("reason %q, want %q", got, tt.why)
			}
		})
	}
}

func TestNICs(t *testing.T) {
	files := map[string]string{}
	port := func(name string) map[string]string {
		return map[string]string{"net/" + name + "/x": ""}
	}
	up := func(names ...string) {
		for _, name := range names {
			files["sys/class/net/"+name+"/operstate"], files["sys/class/net/"+name+"/speed"] = "up", "10000"
		}
	}
	up("eth0", "eth1", "vf0", "pass0", "p1", "p2", "rep0")
	pci(files, "0000:01:00.0", "1af4:1041", "020000", "virtio-pci", map[string]string{"virtio3/net/eth0/x": ""})
	pci(
		files,
		"0000:02:00.0",
		"8086:1572",
		"020000",
		"i40e",
		map[string]string{"net/eth1/x": "", "sriov_totalvfs": "64", "sriov_numvfs": "1"},
	)
	pci(
		files,
		"0000:02:02.0",
		"8086:154c",
		"020000",
		"iavf",
		map[string]string{"net/vf0/x": "", "physfn": "-> ../0000:02:00.0"},
	) // of a card here
	pci(
		files,
		"0000:03:00.0",
		"8086:154c",
		"020000",
		"iavf",
		port("pass0"),
	) // of the host's card
	pci(
		files,
		"0000:04:00.0",
		"15b3:1003",
		"020000",
		"mlx4_core",
		map[string]string{"net/p1/x": "", "net/p2/x": ""},
	) // two ports, one function
	pci(
		files,
		"0000:05:00.0",
		"15b3:1021",
		"020700",
		"mlx5_core",
		map[string]string{
			"infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
			"infiniband/mlx5_0/ports/1/rate":  "400 Gb/sec (4X NDR)",
		},
	)
	pci(
		files,
		"0000:06:00.0",
		"15b3:1021",
		"020700",
		"mlx5_core",
		map[string]string{
			"infiniband/mlx5_1/ports/1/state": "1: DOWN",
			"infiniband/mlx5_1/ports/1/rate":  "10 Gb/sec (4X SDR)",
		},
	)
	pci(files, "0000:07:00.0", "8086:158b", "020000", "vfio-pci", nil)
	pci(files, "0000:08:00.0", "abcd:0001", "028000", "", nil)
	pci(files, "0000:09:00.0", "15b3:101d", "020000", "mlx5_core", map[string]string{"net/rep0/x": "", "net/p0/x": ""})
	up("p0")
	files["sys/class/net/p0/phys_port_name"], files["sys/class/net/rep0/phys_port_name"] = "p0", "pf0vf1"

	facts := detect(t, Options{Tree: tree(t, files)})
	var got []string
	for _, n := range facts.NICs {
		text := func(v any) string {
			switch v := v.(type) {
			case string:
				return v
			case float64:
				return strconv.FormatFloat(v, 'g', -1, 64)
			case int:
				return strconv.Itoa(v)
			}
			return "null"
		}
		got = append(
			got,
			strings.Join(
				[]string{
					*n.Address,
					text(value(n.Vendor)),
					text(value(n.Interface)),
					text(value(n.Link)),
					text(value(n.SpeedGbps)),
					text(value(n.SRIOV.TotalVFs)),
					text(value(n.SRIOV.NumVFs)),
				},
				" ",
			),
		)
	}
	want := []string{
		"0000:01:00.0 redhat eth0 up 10 null null",
		"0000:02:00.0 intel eth1 up 10 64 1",
		"0000:03:00.0 intel pass0 up 10 null null",
		"0000:04:00.0 mellanox p1 up 10 null null",
		"0000:04:00.0 mellanox p2 up 10 null null",
		"0000:05:00.0 mellanox null up 400 null null",
		"0000:06:00.0 mellanox null down null null null",
		"0000:07:00.0 intel null null null null null",
		"0000:08:00.0 null null null null null null",
		"0000:09:00.0 mellanox p0 up 10 null null",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for fact, want := range map[string]string{
		"nics[0000:07:00.0].link":       "driver vfio-pci gives it no interface",
		"nics[0000:08:00.0].interface":  "no driver is bound",
		"nics[0000:08:00.0].vendor":     "no name is known for PCI vendor abcd",
		"nics[0000:06:00.0].speed_gbps": "the link is down",
	} {
		if got := why(facts, fact); got != want {
			t.Errorf("%s: %q, want %q", fact, got, want)
		}
	}
}

func TestAccelerators(t *testing.T) {
	tests := []struct{ id, class, kind, vendor, name, model string }{
		{"10de:2335", "030200", "gpu", "nvidia", "", ""}, // subsystem 0000:0000; set below
		{"10de:1b38", "030000", "gpu", "nvidia", "Tesla P40", "Tesla P40"},
		{"1002:74a1", "120000", "gpu", "amd", "AMD Instinct MI300X", "Instinct MI300X"},
		{"1002:7408", "038000", "gpu", "amd", "AMD Instinct MI250X", "Instinct MI250X"},
		{"8086:0bd5", "038000", "gpu", "intel", "Intel Data Center GPU Max 1550", "Data Center GPU Max 1550"},
		{"8086:56c0", "038000", "gpu", "intel", "Intel Data Center GPU Flex 170", "Data Center GPU Flex 170"},
		{"1da3:1060", "120000", "npu", "habana", "Gaudi3 AI Training Accelerator", "Gaudi3 AI Training Accelerator"},
		{"1d0f:7264", "088000", "npu", "amazon", "AWS Inferentia2", "Inferentia2"},
		{
			"15b3:a2df",
			"020000",
			"dpu",
			"mellanox",
			"BF4 Family integrated network controller [BlueField-4 integrated network controller]",
			"BF4 Family integrated network controller [BlueField-4 integrated network controller]",
		},
		{"1414:5353", "030000", "", "", "", ""}, // Hyper-V's screen
		{"1da3:1020", "120000", "npu", "habana", "Gaudi2 AI Training Accelerator", "Gaudi2 AI Training Accelerator"},
		{"1d0f:7364", "088000", "npu", "amazon", "AWS Trainium2", "Trainium2"},
		{"10ee:5000", "120000", "fpga", "xilinx", "Alveo U200 XDMA Platform", "Alveo U200 XDMA Platform"},
		{
			"8086:0b2b",
			"120000",
			"fpga",
			"intel",
			"PAC with Intel Stratix 10 SX FPGA [FPGA PAC D5005]",
			"PAC with Intel Stratix 10 SX FPGA [FPGA PAC D5005]",
		},
		{"8086:bccf", "120000", "fpga", "intel", "", ""},
		{
			"15b3:a2d6",
			"020000",
			"dpu",
			"mellanox",
			"MT42822 BlueField-2 integrated ConnectX-6 Dx network controller",
			"MT42822 BlueField-2 integrated ConnectX-6 Dx network controller",
		},
		{
			"8086:225c",
			"0b4000",
			"npu",
			"intel",
			"Intel Xeon Phi coprocessor SE10/7120 series",
			"Xeon Phi coprocessor SE10/7120 series",
		},
		{"10de:22a3", "068000", "", "", "", ""}, // NVSwitch
		{"1a03:2000", "030000", "", "", "", ""}, // management controllers
		{"102b:0536", "030000", "", "", "", ""}, //
		{"19e5:1711", "030000", "", "", "", ""}, //
		{"1234:1111", "030000", "", "", "", ""}, // screens of virtual machines
		{"1af4:1050", "038000", "", "", "", ""}, //
		{"8086:37c8", "0b4000", "", "", "", ""}, // QuickAssist
		{"10de:228b", "040300", "", "", "", ""}, // a GPU's sound
		{"15b3:1015", "020000", "", "", "", ""}, // a plain network card
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			if tt.id == "10de:2335" {
				tt.name, tt.model = "NVIDIA H200", "H200" // all its subsystems agree
			}
			files := map[string]string{}
			pci(files, "0000:01:00.0", tt.id, tt.class, "", nil)
			pci(files, "0000:01:00.1", "15b3:a2d6", "020000", "", nil) // a card's second port is not a second accelerator
			facts := detect(t, Options{Tree: tree(t, files)})
			if tt.kind == "" {
				if len(facts.Accelerators) != 0 {
					t.Errorf("got the kind %s, want no accelerator", facts.Accelerators[0].Kind)
				}
				return
			}
			if len(facts.Accelerators) != 1 {
				t.Fatalf("got %d accelerators, want one", len(facts.Accelerators))
			}
			a := facts.Accelerators[0]
			name, model := value(a.Name), value(a.Model)
			if name == nil {
				name, model = "", ""
			}
			if a.Kind != tt.kind || value(a.Vendor) != tt.vendor || name != tt.name || model != tt.model {
				t.Errorf("%s of %v, %q, %q; want %s of %s, %q, %q",
					a.Kind, value(a.Vendor), name, model, tt.kind, tt.vendor, tt.name, tt.model)
			}
			if value(a.Evidence) == nil || a.MemoryGiB != nil ||
				why(facts, "accelerators[0000:01:00.0].memory_gib") == "" {
				t.Errorf("evidence %v, memory %v", value(a.Evidence), value(a.MemoryGiB))
			}
		})
	}
}

// TestCardsOfClouds names what virtual machines have in place of a card.
func TestCardsOfClouds(t *testing.T) {
	for id, want := range map[string]string{
		"1ae0:0042": "google: Compute Engine Virtual Ethernet [gVNIC]",
		"1d0f:ec20": "amazon: Elastic Network Adapter (ENA)",
		"1d0f:efa2": "amazon: Elastic Fabric Adapter (EFA)",
		"1414:00ba": "microsoft: Microsoft Azure Network Adapter VF",
		"1af4:1000": "redhat: Virtio network device",
		"1af4:1041": "redhat: Virtio 1.0 network device",
		"15ad:07b0": "vmware: VMXNET3 Ethernet Controller",
		"8086:1889": "intel: Ethernet Adaptive Virtual Function",
		"15b3:101e": "mellanox: ConnectX Family mlx5Gen Virtual Function",
	} {
		files := map[string]string{}
		pci(files, "0000:05:00.0", id, "020000", "driver", nil)
		facts := detect(t, Options{Tree: tree(t, files)})
		if len(facts.NICs) != 1 || text(facts.NICs[0].Vendor)+": "+text(facts.NICs[0].Model) != want {
			t.Errorf("%s: %+v, want %s", id, facts.NICs, want)
		}
	}
}

func TestNVIDIADriverNamesFirst(t *testing.T) {
	const file = "proc/driver/nvidia/gpus/0000:01:00.0/information"
	files := map[string]string{file: "Model: \t\t NVIDIA A2 in a box\nIRQ: 4\n"}
	pci(
		files,
		"0000:01:00.0",
		"10de:25b6",
		"030200",
		"nvidia",
		map[string]string{"subsystem_vendor": "0x10de", "subsystem_device": "0x14a9"},
	)
	a := detect(t, Options{Tree: tree(t, files)}).Accelerators[0]
	if *a.Name != "NVIDIA A2 in a box" || *a.Model != "A2 in a box" || *a.Evidence != "/"+file {
		t.Errorf("got %s, %s by %s", *a.Name, *a.Model, *a.Evidence)
	}
	files[file] = "Model: \t\t Unknown\n" // fell off the bus
	a = detect(t, Options{Tree: tree(t, files)}).Accelerators[0]
	if *a.Name != "NVIDIA A16" ||
		*a.Evidence != "the table of NVIDIA's driver 595.45.04: 10de:25b6 of subsystem 10de:14a9" {
		t.Errorf("got %s by %s", *a.Name, *a.Evidence)
	}
}

// TestLibraryAndSysfsAgree takes away one function's modalias, for which ghw 0.26 lists nothing, on machines that it
// lists whole. The facts are the same, with a note.
func TestLibraryAndSysfsAgree(t *testing.T) {
	for _, name := range []string{"dgx-h100", "two-sockets", "legacy-x710", "bare-vm"} {
		machine := recorded(t)[name]
		want := detect(t, Options{Tree: machine})
		if got, file := want.Evidence["pci[]"], "/"+pciFolder+"/{address}/modalias"; got != file ||
			why(want, "pci") != "" {
			t.Errorf("%s: got evidence %q and the note %q, want %q and none: ghw lists it",
				name, got, why(want, "pci"), file)
		}

		alias := pciFolder + "/" + want.PCI[len(want.PCI)/2].Address + "/modalias"
		got := detect(t, Options{Tree: faulty{Tree: machine, errs: map[string]error{alias: fs.ErrNotExist}}})
		note := fmt.Sprintf(
			"ghw lists 0 of %d functions (error finding modalias info for device %q), so /%s was read instead",
			len(want.PCI),
			path.Base(path.Dir(alias)),
			pciFolder,
		)
		if why(got, "pci") != note {
			t.Errorf("%s: got the note %q, want %q", name, why(got, "pci"), note)
		}
		if file := "/" + pciFolder + "/{address}/"; got.Evidence["pci[]"] != file {
			t.Errorf("%s: got the evidence %q, want %q", name, got.Evidence["pci[]"], file)
		}

		got.Evidence, want.Evidence = nil, nil
		got.Unknown = slices.DeleteFunc(got.Unknown, func(u world.UnknownFact) bool { return u.Fact == "pci" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want the same facts (-ghw +sysfs):\n%s", name, diff)
		}
	}
}

func TestHugePages(t *testing.T) {
	const whole = "sys/kernel/mm/hugepages/hugepages-"
	node := func(n, size string) string {
		return "sys/devices/system/node/node" + n + "/hugepages/hugepages-" + size + "kB/nr_hugepages"
	}
	tests := map[string]struct {
		files map[string]string
		want  map[string]int
	}{
		"the machine's": {
			map[string]string{
				whole + "2048kB/nr_hugepages":    "3",
				whole + "1048576kB/nr_hugepages": "0",
				node("0", "2048"):                "9",
			},
			map[string]int{"2Mi": 3, "1Gi": 0},
		},
		"the nodes' sum": {
			map[string]string{node("0", "2048"): "3", node("1", "2048"): "4"},
			map[string]int{"2Mi": 7},
		},
		"meminfo's": {
			map[string]string{"proc/meminfo": "MemTotal: 9 kB\nHugePages_Total: 5\nHugepagesize: 2048 kB\n"},
			map[string]int{"2Mi": 5},
		},
		"a kernel that has none at all": {nil, map[string]int{}},
	}
	for name, tt := range tests {
		facts := detect(t, Options{Tree: tree(t, tt.files)})
		if diff := cmp.Diff(tt.want, facts.Memory.HugePages); diff != "" {
			t.Errorf("%s: got other facts (-want +got): %s", name, diff)
		}
	}
}

func TestRecordedInterfaces(t *testing.T) {
	facts := detect(t, Options{Tree: tree(t, map[string]string{
		"addresses.json":             `{"eth0": ["198.51.100.7/24", "2001:db8::7/64", "198.51.100.3/24"], "lo": ["127.0.0.1/8", "::1/128"], "eth1": []}`,
		"sys/class/net/eth0/address": "02:00:5e:00:53:01\n",
		"sys/class/net/eth0/mtu":     "9000\n",
	})})
	mac, mtu := "02:00:5e:00:53:01", 9000
	want := map[string]world.Interface{
		"eth0": {IPv4: []string{"198.51.100.7", "198.51.100.3"}, IPv6: []string{"2001:db8::7"}, MAC: &mac, MTU: &mtu},
	}
	if diff := cmp.Diff(want, facts.Interfaces); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`[]`, `{"eth0": ["198.51.100.7"]}`, `{"eth0/x": ["198.51.100.7/24"]}`, `{"..": []}`, `{"eth0": [""]}`, `{} {}`, `{"a234567890123456": []}`} {
		facts := detect(t, Options{Tree: tree(t, map[string]string{"addresses.json": bad})})
		if got := why(facts, "interfaces"); !strings.HasPrefix(got, "cannot read it: /addresses.json: ") {
			t.Errorf("%s: %q", bad, got)
		}
	}
}
