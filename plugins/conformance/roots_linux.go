package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

// machine is a root that a detector is asked about.
type machine struct {
	name    string
	dir     string
	devices []contract.PCIDevice
}

// invented returns the devices that a description's pci_ids would match: two for each of the first patterns.
func invented(d contract.Description) []contract.PCIDevice {
	var out []contract.PCIDevice
	const patterns = 8
	for i, pattern := range d.Match.PCIIDs[:min(patterns, len(d.Match.PCIIDs))] {
		f := strings.Split(pattern, ":")
		x := contract.PCIDevice{Vendor: f[0], Device: f[1], SubsystemVendor: f[0], SubsystemDevice: "0001", Class: "ff0000"}
		if x.Device == "*" {
			x.Device = "1234"
		}
		if len(f) == 3 {
			x.Class = (f[2] + "0000")[:4] + "00"
		}
		for function := range 2 {
			x.Address = fmt.Sprintf("0000:%02x:00.%d", 0x10+i, function)
			if function == 0 {
				x.NUMA, x.Driver = new(0), "conformance"
			} else {
				x.NUMA, x.Driver = nil, ""
			}
			out = append(out, x)
		}
	}
	return out
}

// tree describes a machine with devices, and with the paths that a description matches.
func tree(d contract.Description, devices []contract.PCIDevice) *fakeroot.Tree {
	t := &fakeroot.Tree{}
	for _, dir := range []string{"/sys/bus/pci/devices", "/sys/class/net", "/sys/devices", "/proc"} {
		t.Dir(dir)
	}
	for _, x := range devices {
		t.PCI(x)
	}
	for _, p := range d.Match.Paths {
		t.Dir(strings.ReplaceAll(p, "*", "0"))
	}
	return t
}

// machines makes the roots. A file of the last one is a pipe that nobody writes into: whoever reads it waits for ever.
func (k *kit) machines(d contract.Description) (plain []machine, odd, stuck machine, err error) {
	devices := invented(d)
	make := func(name string, t *fakeroot.Tree, devices []contract.PCIDevice) (machine, error) {
		m := machine{name, filepath.Join(k.dir, "root-"+name), devices}
		k.roots = append(k.roots, m.dir)
		if err := os.Mkdir(m.dir, 0o755); err != nil {
			return m, err
		}
		return m, t.Write(m.dir)
	}
	empty, err := make("empty", &fakeroot.Tree{}, nil)
	if err != nil {
		return nil, odd, stuck, err
	}
	usual, err := make("devices", tree(d, devices), devices)
	if err != nil {
		return nil, odd, stuck, err
	}
	plain = []machine{empty, usual}
	for i, dir := range k.options.Roots {
		m := machine{fmt.Sprintf("given-%d", i+1), dir, d.Match.Devices(scan(dir))}
		k.roots = append(k.roots, dir)
		plain = append(plain, m)
	}
	if odd, err = make("odd", tree(d, devices), devices); err == nil {
		err = everyFile(odd.dir, spoil)
	}
	if err != nil {
		return nil, odd, stuck, err
	}
	if stuck, err = make("stuck", tree(d, devices), devices); err == nil {
		err = everyFile(stuck.dir, func(p string, _ int) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return unix.Mkfifo(p, 0o444)
		})
	}
	return plain, odd, stuck, err
}

// spoil makes files what no kernel should write, and some do.
func spoil(p string, n int) error {
	junk := []string{"", "\n", "0x", "-1\n", "18446744073709551616\n", "\xff\xfe\x00\x1b[2J", strings.Repeat("9", 5000), "Unknown!\n", strings.Repeat("x\n", 1<<19)}
	if err := os.Chmod(p, 0o644); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(junk[n%len(junk)]), 0o444)
}

func everyFile(dir string, do func(p string, n int) error) error {
	n := 0
	return filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		n++
		return do(p, n)
	})
}
