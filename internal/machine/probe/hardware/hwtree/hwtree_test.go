package hwtree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func machine() Spec {
	vfs, node := 8, 1
	return Spec{
		CPU:       CPU{Vendor: "GenuineIntel", Model: "Xeon", Sockets: 2, Cores: 2, Threads: 2, Offline: []int{7}},
		MemoryKiB: 4096,
		HugePages: map[string]int{"2048": 6},
		Devices: []Device{
			{
				Address:   "0000:b1:00.0",
				ID:        "8086:1572",
				Subsystem: "8086:0007",
				Class:     "020000",
				Driver:    "i40e",
				NUMA:      &node,
				TotalVFs:  &vfs,
				Net:       []Port{{Name: "eth0", Speed: "10000"}},
				VFs:       []Device{{Address: "0000:b1:02.0", ID: "8086:154c", Class: "020000"}},
			},
		},
		DMI:       map[string]string{"product_name": "Test"},
		Addresses: map[string][]string{"eth0": {"198.51.100.7/24"}},
	}
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	if err := Build(machine(), dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range table.YAML[map[string]string](t, `
sys/devices/system/cpu/online: 0,1,2,3,4,5,6
sys/devices/system/cpu/cpu1/topology/thread_siblings_list: 1,5
sys/devices/system/cpu/cpu3/topology/thread_siblings_list: '3'
sys/devices/system/cpu/cpu6/topology/core_siblings_list: 2-3,6-7
sys/devices/system/cpu/cpu6/topology/physical_package_id: '1'
sys/devices/system/node/node1/cpulist: 2-3,6-7
sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages: '3'
sys/bus/pci/devices/0000:b1:00.0/vendor: '0x8086'
sys/bus/pci/devices/0000:b1:00.0/sriov_numvfs: '1'
sys/bus/pci/devices/0000:b1:00.0/modalias: pci:v00008086d00001572sv00008086sd00000007bc02sc00i00
sys/bus/pci/devices/0000:b1:02.0/physfn/device: '0x1572'
sys/bus/pci/devices/0000:b1:02.0/numa_node: '-1'
sys/bus/pci/drivers/i40e/0000:b1:00.0/class: '0x020000'
sys/class/net/eth0/operstate: up
sys/class/dmi/id/product_name: Test
addresses.json: '{"eth0":["198.51.100.7/24"]}'
`) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if got := strings.TrimSuffix(string(data), "\n"); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "sys/devices/system/cpu/cpu7/topology")); err == nil {
		t.Error("an offline CPU has a topology")
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "proc/cpuinfo")); strings.Count(string(data), "processor") != 7 {
		t.Errorf("cpuinfo: got %s, want 7 processors", data)
	}
}

// A GPU that is coherent with its CPU gives the kernel its memory as nodes without CPUs, after those with CPUs.
func TestNodesWithoutCPUs(t *testing.T) {
	s := machine()
	s.NodesKiB = []int64{3072, 512, 512, 0}
	s.HugePages = map[string]int{"2048": 0, "524288": 4}

	dir := t.TempDir()
	if err := Build(s, dir); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{
		"proc/meminfo":                          "MemTotal:       4096 kB\nHugePages_Total:   4\nHugepagesize:       524288 kB",
		"sys/devices/system/node/node1/cpulist": "2-3,6-7",
		"sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       512 kB",
		"sys/devices/system/node/node1/hugepages/hugepages-524288kB/nr_hugepages": "2",
		"sys/devices/system/node/node3/cpulist":                                   "",
		"sys/devices/system/node/node3/meminfo":                                   "Node 3 MemTotal:       0 kB",
		"sys/devices/system/node/node3/hugepages/hugepages-524288kB/nr_hugepages": "0",
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if got := strings.TrimSuffix(string(data), "\n"); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"no core":                func(s *Spec) { s.CPU.Cores = 0 },
		"no memory":              func(s *Spec) { s.MemoryKiB = 0 },
		"a sum that differs":     func(s *Spec) { s.NodesKiB = []int64{4096, 0, 1} },
		"a socket without node":  func(s *Spec) { s.NodesKiB = []int64{4096} },
		"a way out":              func(s *Spec) { s.Files = map[string]string{"../x": ""} },
		"an absolute path":       func(s *Spec) { s.Files = map[string]string{"/etc/x": ""} },
		"a file twice":           func(s *Spec) { s.Files = map[string]string{"proc/meminfo": ""} },
		"no address":             func(s *Spec) { s.Devices[0].Address = "" },
		"one address twice":      func(s *Spec) { s.Devices = append(s.Devices, s.Devices[0]) },
		"a class of four digits": func(s *Spec) { s.Devices[0].Class = "0200" },
	} {
		s := machine()
		change(&s)
		if err := Build(s, t.TempDir()); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func TestReadKnowsItsFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte(`{"cpu": {"sockts": 2}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "sockts") {
		t.Errorf("a misspelt field: got %v, want its name in an error", err)
	}
}
