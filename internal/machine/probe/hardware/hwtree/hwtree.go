// Package hwtree builds a machine from a short description: the folders, files and links of /sys, /proc and /etc that
// hardware.Detect reads. Tests and the demo call BuildFile, so that a machine with eight GPUs is a page of JSON instead
// of ten thousand files in the repository. It must not write outside of the given folder.
package hwtree

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"
)

// Spec describes a machine.
type Spec struct {
	Note      string              `json:"note,omitempty"` // the source of the description
	CPU       CPU                 `json:"cpu"`
	MemoryKiB int64               `json:"memory_kib"`
	NodesKiB  []int64             `json:"nodes_kib,omitempty"` // of each node, those without CPUs last; absent: even
	HugePages map[string]int      `json:"hugepages,omitempty"` // pages by size in KiB, spread evenly over the nodes
	Devices   []Device            `json:"devices,omitempty"`
	DMI       map[string]string   `json:"dmi,omitempty"`       // by file below /sys/class/dmi/id
	Addresses map[string][]string `json:"addresses,omitempty"` // addresses.json
	Files     map[string]string   `json:"files,omitempty"`     // other files by path
}

// CPU describes the processors. Threads are numbered as by Linux on x86: the first threads of all cores, then the
// second threads. Each socket is one NUMA node.
type CPU struct {
	Vendor  string `json:"vendor"`
	Model   string `json:"model"`
	Part    string `json:"part,omitempty"` // of Arm, whose vendor is the implementer, in place of a model: 0xd4f
	Flags   string `json:"flags,omitempty"`
	Sockets int    `json:"sockets"`
	Cores   int    `json:"cores"`   // of a socket
	Threads int    `json:"threads"` // of a core
	Offline []int  `json:"offline,omitempty"`
	NoNUMA  bool   `json:"no_numa,omitempty"` // a kernel without node folders
}

// Device is a PCI function.
type Device struct {
	Address    string            `json:"address"`
	Parent     string            `json:"parent,omitempty"` // the address of the bridge that it is behind
	ID         string            `json:"id"`               // 10de:2330
	Subsystem  string            `json:"subsystem,omitempty"`
	Class      string            `json:"class"` // 030200
	Driver     string            `json:"driver,omitempty"`
	NUMA       *int              `json:"numa,omitempty"` // absent: -1, the firmware gives none
	TotalVFs   *int              `json:"total_vfs,omitempty"`
	VFs        []Device          `json:"vfs,omitempty"`
	Net        []Port            `json:"net,omitempty"`
	Virtio     string            `json:"virtio,omitempty"` // virtio0: the device between function and interface
	InfiniBand []Fabric          `json:"infiniband,omitempty"`
	Link       *Link             `json:"link,omitempty"`
	Files      map[string]string `json:"files,omitempty"` // in the device's folder
}

// Port is a network interface.
type Port struct {
	Name    string `json:"name"`
	State   string `json:"state,omitempty"`   // operstate; absent: up
	Carrier string `json:"carrier,omitempty"` // absent: no file
	Speed   string `json:"speed,omitempty"`   // in Mbit/s, or a driver's value for an unknown speed; absent: no file
	MAC     string `json:"mac,omitempty"`
	MTU     int    `json:"mtu,omitempty"`
	Port    string `json:"port,omitempty"` // phys_port_name
}

// Link is the link between a device and the board. MaxSpeed and MaxWidth default to Speed and Width.
type Link struct {
	Speed    string `json:"speed"` // "32.0 GT/s PCIe"
	Width    int    `json:"width"`
	MaxSpeed string `json:"max_speed,omitempty"`
	MaxWidth int    `json:"max_width,omitempty"`
}

// Fabric is an InfiniBand device with one port.
type Fabric struct {
	Name  string `json:"name"`
	State string `json:"state"`           // "4: ACTIVE"
	Rate  string `json:"rate"`            // "400 Gb/sec (4X NDR)"
	Layer string `json:"layer,omitempty"` // absent: InfiniBand
	GUID  string `json:"guid,omitempty"`
}

// Read parses a description. An unknown field is an error.
func Read(file string) (Spec, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Spec{}, err
	}
	var s Spec
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// layout is the template of a machine's files and links.
//
//go:embed layout.txtar
var layout string

type layoutInput struct {
	Spec
	Processors []processor
	Online     []int
}

type processor struct {
	Number, Core, Socket int
	Siblings             []int // the online threads of its core; nil if it is offline
}

func newLayoutInput(s Spec) layoutInput {
	m := layoutInput{Spec: s}
	if s.NodesKiB == nil {
		m.NodesKiB = slices.Repeat([]int64{s.MemoryKiB / int64(s.CPU.Sockets)}, s.CPU.Sockets)
	}

	cores := s.CPU.Sockets * s.CPU.Cores

	for n := range cores * s.CPU.Threads {
		core := n % cores
		p := processor{
			Number: n,
			Core:   core % s.CPU.Cores,
			Socket: core / s.CPU.Cores,
		}
		if !slices.Contains(s.CPU.Offline, n) {
			m.Online = append(m.Online, n)
			p.Siblings = s.CPU.onlineThreads(core)
		}
		m.Processors = append(m.Processors, p)
	}

	return m
}

// HugePageKiB returns the default size of huge pages, which is 512 MiB where pages are of 64 KiB.
func (s Spec) HugePageKiB() string {
	if _, has64KiB := s.HugePages["524288"]; has64KiB {
		return "524288"
	}

	return "2048"
}

func (c CPU) onlineThreads(core int) (threads []int) {
	for t := range c.Threads {
		n := core + t*c.Sockets*c.Cores
		if !slices.Contains(c.Offline, n) {
			threads = append(threads, n)
		}
	}

	return threads
}

// PartOf returns the part of a processor.
func (c CPU) PartOf(n int) string {
	parts := strings.Fields(c.Part)

	return parts[min(n, len(parts)-1)]
}

// Socket returns the CPUs of a socket in the kernel's list format.
func (c CPU) Socket(socket int) string {
	var ranges []string

	for t := range c.Threads {
		first := (socket + t*c.Sockets) * c.Cores
		last := first + c.Cores - 1
		ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
	}

	return strings.Join(ranges, ",")
}

// Folder returns the folder of a function.
func (d Device) Folder() string {
	bus := d.Address[:strings.LastIndexByte(d.Address, ':')]

	return path.Join("sys/devices/pci"+bus, d.Parent, d.Address)
}

// NetFolder returns the folder of a function's interfaces.
func (d Device) NetFolder() string { return path.Join(d.Folder(), d.Virtio, "net") }

// check checks the forms that the layout depends on.
func (s Spec) check() error {
	least := min(s.CPU.Sockets, s.CPU.Cores, s.CPU.Threads)
	if least < 1 || s.MemoryKiB < 1 {
		return errors.New("a machine needs sockets, cores, threads and memory_kib")
	}

	var nodes int64
	for _, kib := range s.NodesKiB {
		nodes += kib
	}
	if s.NodesKiB != nil && (nodes != s.MemoryKiB || len(s.NodesKiB) < s.CPU.Sockets) {
		const want = "a node for each socket and memory_kib"
		return fmt.Errorf("%d NUMA nodes with %d KiB, want "+want, len(s.NodesKiB), nodes)
	}

	for _, d := range s.Devices {
		for _, function := range append(slices.Clip(d.VFs), d) {
			isSubsystem := function.Subsystem == "" || len(function.Subsystem) == 9
			isAddress := len(function.Address) >= len("0000:00:00.0")
			isID := len(function.ID) == 9 && len(function.Class) == 6

			if !isAddress || !isID || !isSubsystem {
				return fmt.Errorf("device %q: want an address 0000:00:00.0, ids 10de:2330 and a class 030200",
					function.Address)
			}
		}
	}

	return nil
}

// render returns the files and links of a machine.
func render(s Spec) (*txtar.Archive, error) {
	if err := s.check(); err != nil {
		return nil, err
	}

	functions := template.FuncMap{
		"divide": func(n, by int) int { return n / by },
		"json": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"list": func(numbers []int) string {
			words := strings.Fields(fmt.Sprint(numbers))
			return strings.Trim(strings.Join(words, ","), "[]")
		},
		"trim":  func(text string) string { return strings.TrimSuffix(text, "\n") },
		"upper": strings.ToUpper,
	}
	parsed, err := template.New("layout").Funcs(functions).Parse(layout)
	if err != nil {
		return nil, err
	}

	var text bytes.Buffer
	if err := parsed.Execute(&text, newLayoutInput(s)); err != nil {
		return nil, err
	}

	archive := txtar.Parse(text.Bytes())
	for i, f := range archive.Files {
		if bytes.HasSuffix(f.Data, []byte("\x00\n")) { // a string of a device tree ends with NUL
			archive.Files[i].Data = bytes.TrimSuffix(f.Data, []byte("\n"))
		}
	}

	return archive, nil
}

// Build writes the machine below dir, which is created if it does not exist. A file that is described twice is an
// error.
func Build(s Spec, dir string) error {
	archive, err := render(s)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	for _, f := range archive.Files {
		if err := write(root, f); err != nil {
			return err
		}
	}

	return nil
}

// write writes a file, or a relative link if its name is LINK -> TARGET, both from the root.
func write(root *os.Root, f txtar.File) error {
	name, target, isLink := strings.Cut(f.Name, " -> ")
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if isLink {
		up := strings.Repeat("../", strings.Count(name, "/"))
		return root.Symlink(up+target, name)
	}

	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Data)

	return errors.Join(err, file.Close())
}

// BuildFile parses a description and writes the machine below dir.
func BuildFile(file, dir string) error {
	s, err := Read(file)
	if err != nil {
		return err
	}
	if err := Build(s, dir); err != nil {
		return fmt.Errorf("build %s: %w", file, err)
	}
	return nil
}
