package hardware

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/sample"
)

// why is the reason for a fact, or empty.
func why(facts tape.Facts, fact string) string {
	for _, u := range facts.Unknown {
		if u.Fact == fact {
			return u.Why
		}
	}
	return ""
}

// degraded lists the facts that should have been readable.
func degraded(facts tape.Facts) []tape.UnknownFact {
	var list []tape.UnknownFact
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
		first := encode(t, detect(t, ReadOptions{Tree: machine}))
		start, step := chosen.OneIn(min(seeds, 20), name)
		for seed := start; seed < seeds; seed += step {
			again := encode(t, detect(t, ReadOptions{Tree: shuffled{machine, rand.New(rand.NewPCG(uint64(seed), 1))}}))
			if !bytes.Equal(first, again) {
				t.Fatalf("%s, seed %d: want the same facts in any order: %s",
					name, seed, cmp.Diff(string(first), string(again)))
			}
		}
	}
}

func TestNeedsCPUsAndMemoryOnly(t *testing.T) {
	facts := detect(t, ReadOptions{Tree: tree(t, nil)})
	if *facts.CPU.Logical != 1 || *facts.Memory.TotalBytes != 1<<30 {
		t.Errorf("got %d CPUs and %d bytes, want those of the minimal machine",
			*facts.CPU.Logical, *facts.Memory.TotalBytes)
	}
	want := []tape.NUMANode{{ID: 0, CPUs: []int{0}, MemoryBytes: facts.Memory.TotalBytes, HugePages: map[string]int{}}}
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
		if _, err := Detect(context.Background(), ReadOptions{Tree: tree(t, files)}); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), "is needed and") {
			t.Errorf("%s: got %v, want the use in it", name, err)
		}
	}
	if _, err := Detect(context.Background(), ReadOptions{Root: filepath.Join(t.TempDir(), "nowhere")}); !errors.Is(
		err,
		os.ErrNotExist,
	) {
		t.Errorf("a missing root: got %v, want an error", err)
	}
}

func TestAHangingFileCostsTheRestOnly(t *testing.T) {
	files := map[string]string{}
	pci(files, "0000:01:00.0", "15b3:1015", "020000", "mlx5_core", map[string]string{"net/eth0/x": ""})
	detectUntilHung := func(file string) (tape.Facts, error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		machine := hanging(t, tree(t, files), file, func() { cancel(errors.New("the boot's time is up")) })
		return Detect(ctx, ReadOptions{Tree: machine})
	}
	facts, err := detectUntilHung("sys/class/net/eth0/operstate")
	must(t, err)
	if *facts.CPU.Logical != 1 || facts.NICs == nil || facts.PCI == nil || facts.Interfaces == nil {
		t.Errorf("got %+v", facts)
	}
	for _, fact := range []string{"nics", "accelerators", "guids", "runtime", "kernel"} {
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
	write(t, outside, "ffffffffffffffffffffffffffffff11")
	dir := tree(t, map[string]string{"etc/machine-id": "-> " + outside}).root.Name()
	must(t, syscall.Mkfifo(filepath.Join(dir, "etc/os-release"), 0o644))
	facts := detect(t, ReadOptions{Root: dir}) // and does not hang on the pipe
	if facts.MachineID != nil || facts.OS.ID != nil || len(facts.Interfaces) != 0 || facts.Kernel.Release != nil ||
		facts.Product.Name != nil {
		t.Errorf("got facts from outside of the tree, want none: %s", encode(t, facts))
	}
	if got := why(facts, "machine_id"); !strings.HasPrefix(got, "cannot read /etc/machine-id") {
		t.Errorf("machine_id: got the reason %q, want that it cannot be read", got)
	}
}

func TestThisMachine(t *testing.T) {
	facts := detect(t, ReadOptions{})
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
