package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

// machine is a root that the detector is asked about.
type machine struct {
	name    string
	dir     string
	devices []contract.PCIDevice
}

// makeMachines writes machines: plain ones without and with devices, one with unexpected content in its files, and
// one whose files are pipes without a writer, which block every reader.
func (k *kit) makeMachines() (plain []machine, odd, stuck machine, err error) {
	devices := inventDevices(k.description)
	usual := func(name string) (machine, error) {
		return k.writeMachine(name, k.inventTree(devices), devices)
	}

	empty, err1 := k.writeMachine("empty", &fakeroot.Tree{}, nil)
	full, err2 := usual("devices")
	odd, err3 := usual("odd")
	stuck, err4 := usual("stuck")
	err = errors.Join(err1, err2, err3, err4)
	if err != nil {
		return nil, odd, stuck, err
	}

	plain = []machine{empty, full}
	for i, dir := range k.options.Roots {
		root, err := sdk.NewRoot(dir)
		if err != nil {
			return nil, odd, stuck, err
		}
		name := fmt.Sprintf("root %d", i+1)
		found := k.description.Match.Devices(root.PCIDevices())
		plain = append(plain, machine{name, dir, found})
		k.roots = append(k.roots, dir)
	}

	makePipe := func(path string, _ int) error {
		return unix.Mkfifo(path, 0o444)
	}
	oddErr := replaceFiles(odd.dir, writeUnexpected)
	stuckErr := replaceFiles(stuck.dir, makePipe)

	return plain, odd, stuck, errors.Join(oddErr, stuckErr)
}

func (k *kit) writeMachine(
	name string, tree *fakeroot.Tree, devices []contract.PCIDevice,
) (machine, error) {
	m := machine{
		name:    name,
		dir:     filepath.Join(k.dir, "root-"+name),
		devices: devices,
	}
	k.roots = append(k.roots, m.dir)

	err := os.Mkdir(m.dir, 0o755)
	if err != nil {
		return m, err
	}

	return m, tree.Write(m.dir)
}

// inventDevices returns two devices for each of the first pci_ids of a description.
func inventDevices(d contract.Description) []contract.PCIDevice {
	const limit = 8
	patterns := d.Match.PCIIDs
	patterns = patterns[:min(limit, len(patterns))]

	var devices []contract.PCIDevice
	for i, pattern := range patterns {
		parts := strings.Split(pattern, ":") // vendor, device and perhaps class
		device := contract.PCIDevice{
			Address:         fmt.Sprintf("0000:%02x:00.0", 0x10+i),
			Vendor:          parts[0],
			Device:          strings.ReplaceAll(parts[1], "*", "1234"),
			SubsystemVendor: parts[0],
			SubsystemDevice: "0001",
			Class:           "ff0000",
			Driver:          "conformance",
			NUMA:            new(0),
		}
		if len(parts) == 3 {
			device.Class = (parts[2] + "0000")[:6]
		}

		bare := device
		bare.Address = fmt.Sprintf("0000:%02x:00.1", 0x10+i)
		bare.Driver = ""
		bare.NUMA = nil
		devices = append(devices, device, bare)
	}

	return devices
}

// inventTree describes a machine with devices, and with the paths that the description matches.
func (k *kit) inventTree(devices []contract.PCIDevice) *fakeroot.Tree {
	t := &fakeroot.Tree{}
	for _, dir := range []string{"/sys/bus/pci/devices", "/sys/class/net", "/sys/devices", "/proc"} {
		t.Dir(dir)
	}
	for _, d := range devices {
		t.PCI(d)
	}
	for _, p := range k.description.Match.Paths {
		t.Dir(strings.ReplaceAll(p, "*", "0"))
	}

	return t
}

// writeUnexpected writes a file with content that a kernel should not write, but sometimes does.
func writeUnexpected(path string, n int) error {
	contents := []string{
		"",
		"\n",
		"0x",
		"-1\n",
		"18446744073709551616\n",
		"\xff\xfe\x00\x1b[2J",
		strings.Repeat("9", 5000),
		"Unknown!\n",
		strings.Repeat("x\n", 1<<19),
	}

	content := contents[n%len(contents)]

	return os.WriteFile(path, []byte(content), 0o444)
}

// replaceFiles removes each regular file in a folder and calls create with its path and a number.
func replaceFiles(dir string, create func(path string, n int) error) error {
	n := 0

	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if err := os.Remove(path); err != nil { //nolint:gosec // the folder belongs to this program
			return err
		}
		n++

		return create(path, n)
	})
}
