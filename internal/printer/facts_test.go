package printer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/world"
)

func TestTopology(t *testing.T) {
	p := func(s string) *string { return &s }
	n := func(i int) *int { return &i }
	total, speed := int64(1<<30), 25.0
	f := world.Facts{
		Product: world.Product{Name: p("PowerEdge\x1b[31m"), Vendor: p("Dell Inc.")},
		CPU:     world.CPU{Model: p("Xeon")},
		NUMA: []world.NUMANode{
			{ID: 0, CPUs: []int{0, 1, 2, 8}, MemoryBytes: &total, HugePages: map[string]int{"1Gi": 2, "2Mi": 0}},
			{ID: 1, CPUs: []int{3}, MemoryBytes: &total},
			{ID: 250, CPUs: []int{}},
		},
		Accelerators: []world.Accelerator{
			{Kind: "gpu", Name: p("NVIDIA A2"), Address: p("0000:81:00.0"), NUMA: n(1)},
			{Kind: "npu", Device: p("1da3:1020"), Address: p("0000:82:00.0")},
		},
		NICs: []world.NIC{
			{
				Address:   p("0000:01:00.0"),
				Interface: p("eth0"),
				Link:      p("up"),
				SpeedGbps: &speed,
				Model:     p("E810"),
				NUMA:      n(0),
			},
			{
				Address:    p("0000:80:00.0"),
				Device:     p("15b3:1021"),
				NUMA:       n(1),
				InfiniBand: []world.InfiniBandPort{{Device: p("mlx5_0"), Port: n(1), State: p("down")}},
			},
			{Address: p("0000:05:00.0"), Model: p(strings.Repeat("a long name ", 8)), NUMA: n(7)},
		},
		PCI: []world.PCIDevice{
			{Address: "0000:01:10.0", PhysFn: p("0000:01:00.0"), Driver: p("vfio-pci")},
			{Address: "0000:01:10.1", PhysFn: p("0000:01:00.0"), Driver: p("vfio-pci")},
			{Address: "0000:01:10.2", PhysFn: p("0000:01:00.0")},
		},
	}
	var b bytes.Buffer
	if err := TopologyText(&b, f, Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	want := `Dell Inc. PowerEdge·[31m, Xeon
├ node 0: 4 threads (0-2,8), 1.0 GiB, huge pages 2 × 1Gi
│ └ 0000:01:00.0  nic  eth0  up 25G  E810
│   ├ 2 virtual functions, vfio-pci
│   └ 1 virtual function, no driver
├ node 1: 1 thread (3), 1.0 GiB
│ ├ 0000:80:00.0  nic  mlx5_0  15b3:1021
│ └ 0000:81:00.0  gpu  NVIDIA A2
├ node 250: no CPUs
└ no node: the firmware does not say where these are
  ├ 0000:05:00.0  nic  a long name a long name a long name …
  └ 0000:82:00.0  npu  1da3:1020
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}

	f.NUMA = f.NUMA[:1] // on a machine of one node there is nowhere else to be
	b.Reset()
	if err := TopologyText(&b, f, Style{Width: 60}); err != nil || strings.Contains(b.String(), "no node") {
		t.Errorf("got %v and\n%s\nwant all devices on the only node", err, b.String())
	}
}

func TestDevicesOfOneKindAreTogether(t *testing.T) {
	p := func(s string) *string { return &s }
	gts, max, half, full := 16.0, 32.0, 8, 16
	var f world.Facts
	for _, at := range []string{"0000:01:00.0", "0000:02:00.0"} {
		f.NICs = append(
			f.NICs,
			world.NIC{
				Address:   p(at),
				Interface: p("eth" + at[6:7]),
				Model:     p("E810"),
				Device:    p("8086:159b"),
				Driver:    p("ice"),
				Link:      p("up"),
			},
		)
	}
	f.NICs = append(f.NICs, world.NIC{Address: p("0000:03:00.0"), Vendor: p("intel"), Device: p("8086:1")})
	f.NICs[1].PCIe = world.PCIe{GTs: &gts, Width: &half, MaxGTs: &max, MaxWidth: &full}
	var b bytes.Buffer
	if err := FactsText(&b, f, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	want := `
nics
  2 × E810  8086:159b, ice
    0000:01:00.0  eth1  up
    0000:02:00.0  eth2  up  PCIe 16 of 32 GT/s ×8 of ×16
  intel network card  8086:1, no driver
    0000:03:00.0
`
	if !strings.Contains(b.String(), want) {
		t.Errorf("got\n%s\nwant in it\n%s", b.String(), want)
	}
}

// Whatever a machine has, nothing is wider than the screen.
func TestFactsFitTheScreen(t *testing.T) {
	long := strings.Repeat("very long ", 20)
	f := world.Facts{
		Product: world.Product{Name: &long},
		OS:      world.OS{Name: &long},
		CPU:     world.CPU{Model: &long, Offline: []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}},
	}
	n, kind, state := 127, "down", "init"
	for range 5 {
		f.NICs = append(
			f.NICs,
			world.NIC{
				Address:   &kind,
				Interface: &kind,
				Model:     &long,
				Device:    &kind,
				Driver:    &kind,
				Link:      &kind,
				NUMA:      &n,
				SRIOV: world.SRIOV{
					TotalVFs: &n,
					NumVFs:   &n,
				},
				InfiniBand: []world.InfiniBandPort{
					{Device: &kind, Port: &n, State: &state},
					{Device: &kind, Port: &n, State: &state},
				},
			},
		)
	}
	f.Unknown = append(
		f.Unknown,
		world.UnknownFact{
			Fact: "cpu.cores[0].cpus and more of that",
			Why:  "there is no /sys/devices/system/cpu/cpu0/topology/core_cpus_list",
		},
	)
	for range 3 {
		f.Unknown = append(
			f.Unknown,
			world.UnknownFact{Fact: "nics[x].y" + kind, Why: long},
			world.UnknownFact{Fact: "os." + kind, Why: "gone"},
		)
	}
	var b bytes.Buffer
	if err := FactsText(&b, f, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(b.String()) {
		if columns(strings.TrimSuffix(l, "\n")) > 80 {
			t.Errorf("got %q, want at most 80 columns", l)
		}
	}
}
