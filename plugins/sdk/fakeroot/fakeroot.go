// Package fakeroot makes folders that replace a machine's root, with a fake /sys that a few lines describe, so that a
// detector is tested without its device. It writes only below the folder that it is given.
//
// Each line of a description is a file, a link or a folder:
//
//	# a card with one port
//	pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1
//	@0000:3b:00.0/net/ens1f0/speed = 25000
//	/sys/class/net/ens1f0 -> ../../devices/pci0000:3b/0000:3b:00.0/net/ens1f0
//	/proc/version = "Linux version 6.1.0\n"
//	/sys/class/infiniband/
//
// A text without quotes gets a newline at its end, as the kernel writes it; a text in quotes is Go's. The form with
// pci makes the files of a PCI function: address, device, subsystem, class, and optionally driver (or -) and NUMA
// node. @ADDRESS/ is that function's folder, /sys/devices/pciDOMAIN:BUS/ADDRESS/.
package fakeroot

import (
	"bufio"
	"encoding/json"
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

// Tree describes a root. The zero Tree is empty and ready to use.
type Tree struct {
	entries map[string]entry // by path
}

// entry is a file, a link or a folder.
type entry struct {
	kind kind
	text string // the content of a file, the target of a link
}

type kind int

const (
	folder kind = iota
	file
	link
)

// Parse returns the tree of a description. An error has the number of the line.
func Parse(text string) (*Tree, error) {
	t := &Tree{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.parseLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}

	return t, lines.Err()
}

// Machine is a file of package detectortest.
type Machine struct {
	*Tree

	Config map[string]any // of a line `config {…}` in JSON; nil without one
	Text   string         // the part before the answer
	Answer string         // "" without one
}

// AnswerLine divides a machine's description from the expected answer.
const AnswerLine = "---- answer\n"

// ParseMachine returns the machine of a file.
func ParseMachine(text string) (m Machine, err error) {
	m.Text, m.Answer, _ = strings.Cut(text, AnswerLine)
	lines := strings.Split(m.Text, "\n")
	for i, line := range lines {
		object, isConfig := strings.CutPrefix(line, "config ")
		if !isConfig {
			continue
		}
		if err := json.Unmarshal([]byte(object), &m.Config); err != nil {
			return m, fmt.Errorf("line %d: %w", i+1, err)
		}
		lines[i] = "" // the other lines keep their numbers
	}
	m.Tree, err = Parse(strings.Join(lines, "\n"))

	return m, err
}

func (t *Tree) parseLine(line string) error {
	if at, isFunction := strings.CutPrefix(line, "@"); isFunction {
		address, rest, _ := strings.Cut(at, "/")
		if !pciAddress.MatchString(address) {
			return fmt.Errorf("invalid PCI address %q", address)
		}
		line = Folder(address) + "/" + rest
	}
	if rest, isPCI := strings.CutPrefix(line, "pci "); isPCI {
		d, err := parsePCI(strings.Fields(rest))
		if err != nil {
			return err
		}
		t.PCI(d)
		return nil
	}

	if p, target, isLink := strings.Cut(line, " -> "); isLink {
		p = strings.TrimSpace(p)
		target = strings.TrimSpace(target)
		return t.add(p, entry{link, target})
	}
	if p, text, isFile := strings.Cut(line, " = "); isFile {
		p = strings.TrimSpace(p)
		text = strings.TrimSpace(text)
		content := text + "\n"
		if strings.HasPrefix(text, `"`) {
			unquoted, err := strconv.Unquote(text)
			if err != nil {
				return fmt.Errorf("invalid quoted text %s: %w", text, err)
			}
			content = unquoted
		}
		return t.add(p, entry{file, content})
	}
	if p, isFolder := strings.CutSuffix(line, "/"); isFolder {
		return t.add(p, entry{kind: folder})
	}

	return fmt.Errorf("invalid line %q: want PATH = TEXT, PATH -> TARGET, PATH/ or pci …", line)
}

// File adds a file at an absolute path of the machine.
func (t *Tree) File(p, text string) *Tree {
	return t.mustAdd(p, entry{file, text})
}

// Default adds a file at an absolute path of the machine, unless that is described.
func (t *Tree) Default(p, text string) {
	if _, isDescribed := t.entries[p]; !isDescribed {
		_ = t.add(p, entry{file, text})
	}
}

// Link adds a symbolic link.
func (t *Tree) Link(p, target string) *Tree {
	return t.mustAdd(p, entry{link, target})
}

// Dir adds an empty folder.
func (t *Tree) Dir(p string) *Tree {
	return t.mustAdd(p, entry{kind: folder})
}

func (t *Tree) mustAdd(p string, e entry) *Tree {
	if err := t.add(p, e); err != nil {
		panic("fakeroot: " + err.Error())
	}

	return t
}

func (t *Tree) add(p string, e entry) error {
	isClean := strings.HasPrefix(p, "/") && path.Clean(p) == p
	if !isClean || p == "/" {
		return fmt.Errorf("invalid path %q: want a clean absolute path", p)
	}
	if t.entries == nil {
		t.entries = map[string]entry{}
	}
	if e.kind == folder && t.entries[p].kind != folder {
		return nil // a folder that has another entry
	}
	t.entries[p] = e

	return nil
}

// Folder returns the folder of a PCI function.
func Folder(address string) string {
	domain, bus, _ := strings.Cut(address, ":")
	bus, _, _ = strings.Cut(bus, ":")
	return "/sys/devices/pci" + domain + ":" + bus + "/" + address
}

// PCI adds a PCI function as the kernel shows it, and returns its folder.
func (t *Tree) PCI(d contract.PCIDevice) string {
	dir := Folder(d.Address)
	target := "../../.." + strings.TrimPrefix(dir, "/sys")
	t.Link("/sys/bus/pci/devices/"+d.Address, target)
	for name, id := range map[string]string{
		"vendor":           d.Vendor,
		"device":           d.Device,
		"subsystem_vendor": d.SubsystemVendor,
		"subsystem_device": d.SubsystemDevice,
		"class":            d.Class,
	} {
		t.File(dir+"/"+name, "0x"+id+"\n")
	}
	node := -1
	if d.NUMA != nil {
		node = *d.NUMA
	}
	t.File(dir+"/numa_node", strconv.Itoa(node)+"\n")

	uevent := describeFunction(d)
	if d.Driver != "" {
		t.Link(dir+"/driver", "../../../bus/pci/drivers/"+d.Driver)
		t.Dir("/sys/bus/pci/drivers/" + d.Driver)
		uevent = "DRIVER=" + d.Driver + "\n" + uevent
	}
	t.File(dir+"/uevent", uevent)

	return dir
}

// describeFunction returns the content of a function's file uevent, without the driver.
func describeFunction(d contract.PCIDevice) string {
	vendor := strings.ToUpper(d.Vendor)
	device := strings.ToUpper(d.Device)
	subVendor := strings.ToUpper(d.SubsystemVendor)
	subDevice := strings.ToUpper(d.SubsystemDevice)
	class := strings.ToUpper(strings.TrimLeft(d.Class, "0"))

	modalias := "pci:v0000" + vendor + "d0000" + device
	modalias += "sv0000" + subVendor + "sd0000" + subDevice
	base, sub, programming := d.Class[:2], d.Class[2:4], d.Class[4:]
	modalias += "bc" + base + "sc" + sub + "i" + programming

	lines := []string{
		"PCI_CLASS=" + class,
		"PCI_ID=" + vendor + ":" + device,
		"PCI_SUBSYS_ID=" + subVendor + ":" + subDevice,
		"PCI_SLOT_NAME=" + d.Address,
		"MODALIAS=" + modalias,
		"",
	}

	return strings.Join(lines, "\n")
}

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

	// pciLine is for a line with pci, behind that word.
	pciLine = regexp.MustCompile(
		`^(\S+) ([0-9a-f]{4}):([0-9a-f]{4}) ([0-9a-f]{4}):([0-9a-f]{4}) ([0-9a-f]{6})` +
			`(?: ([\w-][\w.+-]*)(?: numa=(\d{1,4}))?)?$`,
	)
)

// parsePCI returns the PCI function of a line with pci.
func parsePCI(words []string) (contract.PCIDevice, error) {
	line := strings.Join(words, " ")
	m := pciLine.FindStringSubmatch(line)
	if m == nil || !pciAddress.MatchString(m[1]) {
		return contract.PCIDevice{}, fmt.Errorf("invalid line \"pci %s\": want "+
			"ADDRESS VENDOR:DEVICE SUBVENDOR:SUBDEVICE CLASS [DRIVER|- [numa=N]] with lower-case digits", line)
	}

	d := contract.PCIDevice{
		Address:         m[1],
		Vendor:          m[2],
		Device:          m[3],
		SubsystemVendor: m[4],
		SubsystemDevice: m[5],
		Class:           m[6],
	}
	if m[7] != "-" {
		d.Driver = m[7]
	}
	if m[8] != "" {
		n, err := strconv.Atoi(m[8])
		if err != nil {
			return d, err
		}
		d.NUMA = &n
	}

	return d, nil
}

// Write writes the tree below an existing folder. Files have mode 0444 and folders 0755, as in /sys.
func (t *Tree) Write(dir string) error {
	for _, p := range slices.Sorted(maps.Keys(t.entries)) {
		full := filepath.Join(dir, p)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil {
			err = t.entries[p].write(full)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

func (e entry) write(at string) error {
	switch e.kind {
	case file:
		return os.WriteFile(at, []byte(e.text), 0o444)
	case link:
		return os.Symlink(e.text, at)
	}

	return os.MkdirAll(at, 0o755)
}
