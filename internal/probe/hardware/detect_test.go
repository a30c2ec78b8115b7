package hardware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/sample"
	"github.com/prelet/prelet/internal/world"
)

// why is the reason for a fact, or empty.
func why(facts world.Facts, fact string) string {
	for _, u := range facts.Unknown {
		if u.Fact == fact {
			return u.Why
		}
	}
	return ""
}

// degraded lists the facts that should have been readable.
func degraded(facts world.Facts) []world.UnknownFact {
	var list []world.UnknownFact
	for _, u := range facts.Unknown {
		if u.Degraded {
			list = append(list, u)
		}
	}
	return list
}

func TestSameBytesWhateverTheOrderOfFolders(t *testing.T) {
	chosen := sample.New(t)
	for name, machine := range recorded(t) {
		seeds := 5
		if name == "dgx-h100" || name == "linux-amd64-61797caf7c0b6bca1725ad7975ed4773" {
			seeds = 100
		}
		first := encode(t, detect(t, Options{Tree: machine}))
		start, step := chosen.OneIn(min(seeds, 20), name)
		for seed := start; seed < seeds; seed += step {
			again := encode(t, detect(t, Options{Tree: shuffled{machine, rand.New(rand.NewPCG(uint64(seed), 1))}}))
			if !bytes.Equal(first, again) {
				t.Fatalf("%s, seed %d: want the same facts in any order: %s",
					name, seed, cmp.Diff(string(first), string(again)))
			}
		}
	}
}

// Every null among the fields that always have a meaning must have its reason.
func TestNullHasAReason(t *testing.T) {
	for name, tree := range recorded(t) {
		facts := detect(t, Options{Tree: tree})
		need := func(isNil bool, fact string) {
			if isNil && why(facts, fact) == "" {
				t.Errorf("%s: %s is null, want a reason", name, fact)
			}
		}
		for _, a := range facts.Accelerators {
			at := "accelerators[" + *a.Address + "]"
			need(a.Vendor == nil, at+".vendor")
			need(a.Name == nil, at+".name")
			need(a.Model == nil, at+".model")
			need(a.MemoryGiB == nil, at+".memory_gib")
			need(a.PCIe == world.PCIe{}, at+".pcie")
			need(a.NUMA == nil, at+".numa")
		}
		for _, n := range facts.NICs {
			at := "nics[" + *n.Address + "]"
			need(n.PCIe == world.PCIe{}, at+".pcie")
			for _, p := range n.InfiniBand {
				need(p.State == nil, fmt.Sprintf("%s.infiniband[%s/%d].state", at, *p.Device, *p.Port))
				need(p.RateGbps == nil, fmt.Sprintf("%s.infiniband[%s/%d].rate_gbps", at, *p.Device, *p.Port))
				need(p.LinkLayer == nil, fmt.Sprintf("%s.infiniband[%s/%d].link_layer", at, *p.Device, *p.Port))
			}
			need(n.Interface == nil, at+".interface")
			need(n.Vendor == nil, at+".vendor")
			need(n.Model == nil, at+".model")
			need(n.SpeedGbps == nil, at+".speed_gbps")
			need(n.Link == nil, at+".link")
		}
		need(facts.CPU.Model == nil, "cpu.model")
		need(facts.CPU.SMT == nil, "cpu.smt")
		need(facts.Product.Name == nil, "product.name")
		need(facts.Product.Serial == nil, "product.serial")
		need(facts.Virtualization == nil, "virtualization")
		need(facts.Kernel.Release == nil, "kernel.release")
		need(facts.OS.ID == nil, "os.id")
		need(facts.Runtime.CgroupDriver == nil, "runtime.cgroup_driver")
		need(facts.MachineID == nil, "machine_id")
		need(len(facts.Interfaces) == 0, "interfaces")
	}
}

func TestNeedsCPUsAndMemoryOnly(t *testing.T) {
	facts := detect(t, Options{Tree: tree(t, nil)})
	if *facts.CPU.Logical != 1 || *facts.Memory.TotalBytes != 1<<30 {
		t.Errorf("got %d CPUs and %d bytes, want those of the minimal machine",
			*facts.CPU.Logical, *facts.Memory.TotalBytes)
	}
	want := []world.NUMANode{{ID: 0, CPUs: []int{0}, MemoryBytes: facts.Memory.TotalBytes, HugePages: map[string]int{}}}
	if diff := cmp.Diff(want, facts.NUMA); diff != "" {
		t.Errorf("a kernel without NUMA: want one node: %s", diff)
	}
	if node := facts.CPU.Cores[0].Node; node == nil || *node != 0 {
		t.Errorf("core on node %v, want 0", value(node))
	}
	for name, files := range map[string]map[string]string{
		"no meminfo":       {"proc/meminfo": "-"},
		"no MemTotal":      {"proc/meminfo": "MemFree: 12 kB\n"},
		"no CPU anywhere":  {"proc/cpuinfo": "-", "sys/devices/system/cpu/online": "-"},
		"an empty cpuinfo": {"proc/cpuinfo": "", "sys/devices/system/cpu/online": "x"},
	} {
		if _, err := Detect(context.Background(), Options{Tree: tree(t, files)}); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), "is needed and") {
			t.Errorf("%s: got %v, want the use in it", name, err)
		}
	}
	if _, err := Detect(context.Background(), Options{Root: filepath.Join(t.TempDir(), "nowhere")}); !errors.Is(
		err,
		os.ErrNotExist,
	) {
		t.Errorf("a missing root: got %v, want an error", err)
	}
}

func TestAHangingFileCostsTheRestOnly(t *testing.T) {
	let := make(chan struct{})
	defer close(let)
	files := map[string]string{}
	pci(files, "0000:01:00.0", "15b3:1015", "020000", "mlx5_core", map[string]string{"net/eth0/x": ""})
	detectUntilHung := func(file string) (world.Facts, error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		machine := faulty{
			Tree:  tree(t, files),
			hangs: file,
			let:   let,
			hung:  func() { cancel(errors.New("the boot's time is up")) },
		}
		return Detect(ctx, Options{Tree: machine})
	}
	facts, err := detectUntilHung("sys/class/net/eth0/operstate")
	if err != nil {
		t.Fatal(err)
	}
	if *facts.CPU.Logical != 1 || facts.NICs == nil || facts.PCI == nil || facts.Interfaces == nil {
		t.Errorf("got %+v", facts)
	}
	for _, fact := range []string{"nics", "accelerators", "runtime", "kernel"} {
		if got := why(facts, fact); got != "cannot read it in time: the boot's time is up" {
			t.Errorf("%s: got the reason %q, want the deadline", fact, got)
		}
	}
	if _, err := detectUntilHung("proc/meminfo"); err == nil ||
		!strings.Contains(err.Error(), "the boot's time is up") {
		t.Errorf("memory hangs: got %v, want the deadline", err)
	}
}

// Facts of a recorded tree must not come from the machine that reads it, whatever links the tree has.
func TestARecordedTreeKeepsToItself(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("ffffffffffffffffffffffffffffff11"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range minimal {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	etc := filepath.Join(dir, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(etc, "machine-id")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(etc, "os-release"), 0o644); err != nil {
		t.Fatal(err)
	}
	facts := detect(t, Options{Root: dir}) // and does not hang on the pipe
	if facts.MachineID != nil || facts.OS.ID != nil || len(facts.Interfaces) != 0 || facts.Kernel.Release != nil ||
		facts.Product.Name != nil {
		t.Errorf("got facts from outside of the tree, want none: %s", encode(t, facts))
	}
	if got := why(facts, "machine_id"); !strings.HasPrefix(got, "cannot read /etc/machine-id") {
		t.Errorf("machine_id: got the reason %q, want that it cannot be read", got)
	}
}

func TestThisMachine(t *testing.T) {
	facts := detect(t, Options{})
	if *facts.CPU.Logical < 1 || *facts.Memory.TotalBytes < 1<<20 || facts.Kernel.Release == nil {
		t.Errorf("got %s, want CPUs, memory and a kernel", encode(t, facts))
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err == nil && strings.TrimSpace(string(release)) != *facts.Kernel.Release {
		t.Errorf("kernel %s, want %s", *facts.Kernel.Release, release)
	}
	if _, ok := facts.Interfaces["lo"]; ok {
		t.Error("the loopback interface is listed")
	}
}
