// Package fakeroot makes folders that stand for a machine's root: a fake /sys, written down in a few lines, so that a
// detector is tested without its device. It writes below the folder that it is given and nowhere else.
//
// In a description each line is a file, a link or a folder:
//
//	# a card with one port
//	pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1
//	@0000:3b:00.0/net/ens1f0/speed = 25000
//	/sys/class/net/ens1f0 -> ../../devices/pci0000:3b/0000:3b:00.0/net/ens1f0
//	/proc/version = "Linux version 6.1.0\n"
//	/sys/class/infiniband/
//
// A text without quotes gets a newline at its end, as the kernel writes it; one in quotes is Go's and stands as it is.
// The form with pci is short for what /sys shows of a PCI function: address, device, subsystem, class, and where they
// are wanted driver (or -) and NUMA node. @ADDRESS/ stands for that function's folder, /sys/devices/pciDOMAIN:BUS/ADDRESS/.
package fakeroot

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Tree is a root that is not written yet. The zero Tree is empty and ready.
type Tree struct {
	files map[string]string // path → text
	links map[string]string // path → target
	dirs  map[string]bool
}

// Parse reads a description. The error says the line.
func Parse(text string) (*Tree, error) {
	t := &Tree{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return t, lines.Err()
}

// ParseMachine reads the machine of a file of package detectortest: less the line with the configuration, and up to the answer.
func ParseMachine(text string) (*Tree, error) {
	text, _, _ = strings.Cut(text, "\n----")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "config ") {
			lines[i] = "" // so that the others keep their numbers
		}
	}

	return Parse(strings.Join(lines, "\n"))
}

func (t *Tree) line(line string) error {
	if line[0] == '@' {
		address, rest, _ := strings.Cut(line[1:], "/")
		if !pciAddress.MatchString(address) {
			return fmt.Errorf("@%s: no PCI address", address)
		}
		line = Folder(address) + "/" + rest
	}
	if rest, ok := strings.CutPrefix(line, "pci "); ok {
		d, err := parsePCI(strings.Fields(rest))
		if err != nil {
			return err
		}
		t.PCI(d)
		return nil
	}
	if p, target, ok := strings.Cut(line, " -> "); ok {
		return t.link(strings.TrimSpace(p), strings.TrimSpace(target))
	}
	if p, text, ok := strings.Cut(line, " = "); ok {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, `"`) {
			unquoted, err := strconv.Unquote(text)
			if err != nil {
				return fmt.Errorf("%s: not a text of Go: %w", text, err)
			}
			return t.file(strings.TrimSpace(p), unquoted)
		}
		return t.file(strings.TrimSpace(p), text+"\n")
	}
	if strings.HasSuffix(line, "/") {
		return t.dir(line)
	}
	return fmt.Errorf("%q: want PATH = TEXT, PATH -> TARGET, PATH/ or pci …", line)
}

// File adds a file. Path is absolute on the machine.
func (t *Tree) File(p, text string) *Tree { return t.must(t.file(p, text)) }

// Link adds a symbolic link.
func (t *Tree) Link(p, target string) *Tree { return t.must(t.link(p, target)) }

// Dir adds an empty folder.
func (t *Tree) Dir(p string) *Tree { return t.must(t.dir(p)) }

func (t *Tree) must(err error) *Tree {
	if err != nil {
		panic("fakeroot: " + err.Error())
	}
	return t
}

func (t *Tree) file(p, text string) error {
	if err := check(p); err != nil {
		return err
	}
	if t.files == nil {
		t.files = map[string]string{}
	}
	t.files[p] = text
	return nil
}

func (t *Tree) link(p, target string) error {
	if err := check(p); err != nil {
		return err
	}
	if t.links == nil {
		t.links = map[string]string{}
	}
	t.links[p] = target
	return nil
}

func (t *Tree) dir(p string) error {
	p = strings.TrimSuffix(p, "/")
	if err := check(p); err != nil {
		return err
	}
	if t.dirs == nil {
		t.dirs = map[string]bool{}
	}
	t.dirs[p] = true
	return nil
}

func check(p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/" {
		return fmt.Errorf("%q is no clean absolute path", p)
	}
	return nil
}

// Folder returns the folder of a PCI function.
func Folder(address string) string {
	domain, bus, _ := strings.Cut(address, ":")
	bus, _, _ = strings.Cut(bus, ":")
	return "/sys/devices/pci" + domain + ":" + bus + "/" + address
}

// PCI adds a PCI function as the kernel shows it, and returns the folder that it is in.
func (t *Tree) PCI(d contract.PCIDevice) string {
	dir := Folder(d.Address)
	t.Link("/sys/bus/pci/devices/"+d.Address, "../../.."+strings.TrimPrefix(dir, "/sys"))
	for name, id := range map[string]string{"vendor": d.Vendor, "device": d.Device, "subsystem_vendor": d.SubsystemVendor, "subsystem_device": d.SubsystemDevice, "class": d.Class} {
		t.File(dir+"/"+name, "0x"+id+"\n")
	}
	node := -1
	if d.NUMA != nil {
		node = *d.NUMA
	}
	t.File(dir+"/numa_node", strconv.Itoa(node)+"\n")
	uevent := fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SUBSYS_ID=%s:%s\nPCI_SLOT_NAME=%s\nMODALIAS=pci:v0000%sd0000%ssv0000%ssd0000%sbc%ssc%si%s\n",
		strings.ToUpper(strings.TrimLeft(d.Class, "0")), strings.ToUpper(d.Vendor), strings.ToUpper(d.Device), strings.ToUpper(d.SubsystemVendor),
		strings.ToUpper(d.SubsystemDevice), d.Address, strings.ToUpper(d.Vendor), strings.ToUpper(d.Device), strings.ToUpper(d.SubsystemVendor),
		strings.ToUpper(d.SubsystemDevice), d.Class[:2], d.Class[2:4], d.Class[4:])
	if d.Driver != "" {
		t.Link(dir+"/driver", "../../../bus/pci/drivers/"+d.Driver)
		t.Dir("/sys/bus/pci/drivers/" + d.Driver)
		uevent = "DRIVER=" + d.Driver + "\n" + uevent
	}
	t.File(dir+"/uevent", uevent)
	return dir
}

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	pciPair    = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)
	pciClass   = regexp.MustCompile(`^[0-9a-f]{6}$`)
)

func parsePCI(f []string) (d contract.PCIDevice, err error) {
	if len(f) < 4 || len(f) > 6 || !pciAddress.MatchString(f[0]) || !pciPair.MatchString(f[1]) || !pciPair.MatchString(f[2]) || !pciClass.MatchString(f[3]) {
		return d, fmt.Errorf("pci %s: want ADDRESS VENDOR:DEVICE SUBVENDOR:SUBDEVICE CLASS [DRIVER|- [numa=N]] in lower-case digits", strings.Join(f, " "))
	}
	d.Address, d.Class = f[0], f[3]
	d.Vendor, d.Device, _ = strings.Cut(f[1], ":")
	d.SubsystemVendor, d.SubsystemDevice, _ = strings.Cut(f[2], ":")
	if len(f) > 4 && f[4] != "-" {
		d.Driver = f[4]
	}
	if len(f) > 5 {
		n, err := strconv.ParseUint(strings.TrimPrefix(f[5], "numa="), 10, 16)
		if err != nil {
			return d, fmt.Errorf("pci: %q: want numa=N", f[5])
		}
		d.NUMA = new(int(n))
	}
	return d, nil
}

// Write writes the tree below a folder that exists. Files are 0444 and folders 0755, as in /sys.
func (t *Tree) Write(dir string) error {
	at := func(p string) (string, error) {
		full := filepath.Join(dir, p)
		return full, os.MkdirAll(filepath.Dir(full), 0o755)
	}
	for _, p := range slices.Sorted(maps.Keys(t.dirs)) {
		full, err := at(p)
		if err == nil {
			err = os.MkdirAll(full, 0o755)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.files)) {
		full, err := at(p)
		if err == nil {
			err = os.WriteFile(full, []byte(t.files[p]), 0o444)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.links)) {
		full, err := at(p)
		if err == nil {
			err = os.Symlink(t.links[p], full)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
