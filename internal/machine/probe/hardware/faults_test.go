package hardware

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
)

// If a device does not answer, only its own facts are missing, after Options.FileTimeout.
func TestADeviceThatHangsIsGivenUp(t *testing.T) {
	const patience = 500 * time.Millisecond // of the bubble's clock, which stands still while files are read
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
			synctest.Test(t, func(t *testing.T) {
				machine := hanging(t, tree(t, files), file, func() {})
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				facts, err := Detect(ctx, ReadOptions{Tree: machine, FileTimeout: patience})
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
		})
	}
	synctest.Test(t, func(t *testing.T) {
		machine := hanging(t, tree(t, nil), "proc/meminfo", func() {})
		_, err := Detect(t.Context(), ReadOptions{Tree: machine, FileTimeout: patience})
		if err == nil || !strings.Contains(err.Error(), "memory is needed") ||
			!strings.Contains(err.Error(), "did not answer in time") {
			t.Errorf("without memory: got %v, want an error", err)
		}
	})
}

// A named pipe in a recorded tree has no writer: who opens it as any file waits for ever.
func TestAPipeInARecordedTree(t *testing.T) {
	files := map[string]string{}
	pci(files, "0000:01:00.0", "15b3:1015", "020000", "", nil)
	dir := tree(t, files).root.Name()
	pipe := filepath.Join(dir, pciFolder, "0000:01:00.0", "numa_node")
	must(t, errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o644)))
	facts := detect(t, ReadOptions{Root: dir})
	want := []tape.UnknownFact{
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

// A hot unplug takes a device away between listing the bus and reading it.
func TestADeviceThatVanishes(t *testing.T) {
	files := map[string]string{}
	pci(files, "0000:01:00.0", "15b3:1015", "020000", "", nil)
	pci(files, "0000:02:00.0", "15b3:1015", "020000", "", nil)
	facts := detect(t, ReadOptions{Tree: faulty{tree(t, files), func(name string) error {
		if strings.HasPrefix(name, pciFolder+"/0000:01:00.0/") {
			return syscall.ENODEV
		}
		return nil
	}}})
	if len(facts.NICs) != 1 || len(degraded(facts)) != 1 || degraded(facts)[0].Fact != "pci[0000:01:00.0]" {
		t.Errorf("%d cards, degraded %v", len(facts.NICs), degraded(facts))
	}
}

// The version of a driver that cannot be read is unknown; one without a version has none.
func TestADriverThatDoesNotSayItsVersion(t *testing.T) {
	for err, want := range map[error]int{syscall.EIO: 1, fs.ErrNotExist: 0} {
		files := map[string]string{}
		pci(files, "0000:01:00.0", "10de:2330", "030200", "nvidia", nil)
		facts := detect(t, ReadOptions{Tree: faulty{tree(t, files), func(name string) error {
			if strings.HasSuffix(name, "nvidia/module/version") {
				return err
			}
			return nil
		}}})
		got := slices.DeleteFunc(slices.Clone(facts.Unknown), func(u tape.UnknownFact) bool {
			return u.Fact != "accelerators[0000:01:00.0].driver_version"
		})
		if len(got) != want {
			t.Errorf("%v: got unknown %v; want %d for driver_version", err, got, want)
		}
	}
}

// Without a device on the bus, as in a container, the lists are empty and not known: nothing is held for them.
func TestEmptyBus(t *testing.T) {
	machine := tree(t, nil)
	must(t, machine.root.MkdirAll(pciFolder, 0o755))
	facts := detect(t, ReadOptions{Tree: machine})
	for _, fact := range []string{"accelerators", "nics", "guids"} {
		if got, want := why(facts, fact), "the PCI bus has no device"; got != want {
			t.Errorf("%s: got the reason %q, want %q", fact, got, want)
		}
	}
}

// A parser of ours may panic at what it reads.
func TestAPanicCostsItsSection(t *testing.T) {
	breaks := func() { panic("index out of range") }
	files := map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef"}
	pci(files, "0000:01:00.0", "10de:2330", "030200", "nvidia", nil)
	facts := detect(t, ReadOptions{Tree: hanging(t, tree(t, files), pciFolder+"/0000:01:00.0/numa_node", breaks)})
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
	if diff := cmp.Diff([]string{"accelerators", "guids", "nics", "pci"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := Detect(t.Context(), ReadOptions{Tree: hanging(t, tree(t, files), "proc/meminfo", breaks)}); err == nil ||
		!strings.Contains(err.Error(), "memory is needed") {
		t.Errorf("memory: got %v, want an error", err)
	}
}
