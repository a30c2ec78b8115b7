package hardware

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/world"
)

// If a device does not answer, only its own facts are missing, after Options.FileTimeout.
func TestADeviceThatHangsIsGivenUp(t *testing.T) {
	const patience = 500 * time.Millisecond // a busy machine may let a test wait for as long as a tenth of it
	files := map[string]string{
		"etc/machine-id":                "0123456789abcdef0123456789abcdef",
		"sys/class/dmi/id/product_name": "Test",
	}
	for _, address := range []string{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"} {
		pci(files, address, "10de:2330", "030200", "nvidia", nil)
	}
	for file, lost := range map[string]string{
		pciFolder + "/0000:02:00.0/vendor":             "pci[0000:02:00.0]",
		pciFolder + "/0000:02:00.0/numa_node":          "pci[0000:02:00.0]",
		pciFolder + "/0000:02:00.0/current_link_speed": "pci[0000:02:00.0]",
		"sys/class/dmi/id/product_serial":              "product.serial",
	} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			let := make(chan struct{})
			defer close(let)
			machine := faulty{Tree: tree(t, files), hangs: file, let: let, hung: func() {}}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			facts, err := Detect(ctx, Options{Tree: machine, FileTimeout: patience})
			if err != nil || ctx.Err() != nil {
				t.Fatalf("%s: got %v, %v; want facts in time", file, err, ctx.Err())
			}
			var names []string
			for _, u := range degraded(facts) {
				names = append(names, u.Fact)
				if !strings.Contains(u.Why, "did not answer in time") {
					t.Errorf("%s: got the reason %s, want none", u.Fact, u.Why)
				}
			}
			if diff := cmp.Diff([]string{lost}, names); diff != "" {
				t.Errorf("%s hangs (-want +got): %s", file, diff)
			}
			want := 3
			if strings.HasPrefix(lost, "pci") {
				want = 2
			}
			if len(facts.Accelerators) != want || facts.MachineID == nil {
				t.Errorf("%s hangs: got %d accelerators, machine id %v; want the others",
					file, len(facts.Accelerators), value(facts.MachineID))
			}
		})
	}
	let := make(chan struct{})
	defer close(let)
	_, err := Detect(
		context.Background(),
		Options{Tree: faulty{Tree: tree(t, nil), hangs: "proc/meminfo", let: let, hung: func() {}}, FileTimeout: patience},
	)
	if err == nil || !strings.Contains(err.Error(), "memory is needed") ||
		!strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("without memory: got %v, want an error", err)
	}
}

// A named pipe in a recorded tree has no writer: who opens it as any file waits for ever.
func TestAPipeInARecordedTree(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{}
	pci(files, "0000:01:00.0", "15b3:1015", "020000", "", nil)
	for name, text := range minimal {
		files[name] = text
	}
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, pciFolder, "0000:01:00.0", "numa_node")
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	facts := detect(t, Options{Root: dir})
	want := []world.UnknownFact{
		{
			Fact:     "pci[0000:01:00.0].numa",
			Why:      "cannot read /" + pciFolder + "/0000:01:00.0/numa_node: not a regular file",
			Degraded: true,
		},
	}
	if diff := cmp.Diff(want, degraded(facts)); diff != "" {
		t.Error(diff)
	}
}

// vanishing takes a device away between listing the bus and reading it, as a hot unplug does.
type vanishing struct {
	Tree
	device string
}

func (v vanishing) ReadFile(name string, limit int) ([]byte, error) {
	if strings.HasPrefix(name, v.device+"/") {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENODEV}
	}
	return v.Tree.ReadFile(name, limit)
}

func TestADeviceThatVanishes(t *testing.T) {
	files := map[string]string{}
	pci(files, "0000:01:00.0", "15b3:1015", "020000", "", nil)
	pci(files, "0000:02:00.0", "15b3:1015", "020000", "", nil)
	facts := detect(t, Options{Tree: vanishing{tree(t, files), pciFolder + "/0000:01:00.0"}})
	if len(facts.NICs) != 1 || len(degraded(facts)) != 1 || degraded(facts)[0].Fact != "pci[0000:01:00.0]" {
		t.Errorf("%d cards, degraded %v", len(facts.NICs), degraded(facts))
	}
}

// breaking panics where it reads one file, as a parser of ours might.
type breaking struct {
	Tree
	file string
}

func (b breaking) ReadFile(name string, limit int) ([]byte, error) {
	if name == b.file {
		panic("index out of range")
	}
	return b.Tree.ReadFile(name, limit)
}

func TestAPanicCostsItsSection(t *testing.T) {
	files := map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef"}
	pci(files, "0000:01:00.0", "10de:2330", "030200", "nvidia", nil)
	facts := detect(t, Options{Tree: breaking{tree(t, files), pciFolder + "/0000:01:00.0/numa_node"}})
	if facts.MachineID == nil || facts.PCI == nil || len(facts.PCI) != 0 {
		t.Errorf("got %+v", facts)
	}
	var names []string
	for _, u := range degraded(facts) {
		names = append(names, u.Fact)
		if !strings.Contains(u.Why, "bug in prelet") {
			t.Errorf("%s: got the reason %s, want none", u.Fact, u.Why)
		}
	}
	if diff := cmp.Diff([]string{"accelerators", "nics", "pci"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := Detect(context.Background(), Options{Tree: breaking{tree(t, files), "proc/meminfo"}}); err == nil ||
		!strings.Contains(err.Error(), "memory is needed") {
		t.Errorf("memory: got %v, want an error", err)
	}
}
