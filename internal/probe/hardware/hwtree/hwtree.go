// Package hwtree builds a machine out of a short description: the folders, files and links of /sys, /proc and /etc that
// hardware.Detect reads, and no more. Tests and the demo use it, so that a machine of eight GPUs is a page of JSON and
// not ten thousand files in the repository. It writes below the folder that it is given and nowhere else.
package hwtree

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Spec describes a machine.
type Spec struct {
	Note      string              `json:"note,omitempty"` // where it comes from
	CPU       CPU                 `json:"cpu"`
	MemoryKiB int64               `json:"memory_kib"`
	HugePages map[string]int      `json:"hugepages,omitempty"` // pages by size in KiB, spread evenly over the nodes
	Devices   []Device            `json:"devices,omitempty"`
	DMI       map[string]string   `json:"dmi,omitempty"`       // by file below /sys/class/dmi/id
	Addresses map[string][]string `json:"addresses,omitempty"` // addresses.json
	Files     map[string]string   `json:"files,omitempty"`     // anything else, by path
}

// CPU numbers threads as Linux does on x86: the first threads of all cores, then the second ones. Each socket is one NUMA
// node.
type CPU struct {
	Vendor  string `json:"vendor"`
	Model   string `json:"model"`
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
	ID         string            `json:"id"` // 10de:2330
	Subsystem  string            `json:"subsystem,omitempty"`
	Class      string            `json:"class"` // 030200
	Driver     string            `json:"driver,omitempty"`
	NUMA       *int              `json:"numa,omitempty"` // absent: -1, the firmware does not say
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
	Speed   string `json:"speed,omitempty"`   // in Mbit/s, or what drivers write that know none; absent: no file
	MAC     string `json:"mac,omitempty"`
	MTU     int    `json:"mtu,omitempty"`
	Port    string `json:"port,omitempty"` // phys_port_name
}

// Link is between a device and the board; what the device could do is the same where it is not told.
type Link struct {
	Speed    string `json:"speed"` // "32.0 GT/s PCIe"
	Width    int    `json:"width"`
	MaxSpeed string `json:"max_speed,omitempty"`
	MaxWidth int    `json:"max_width,omitempty"`
}

// Fabric is an InfiniBand device of one port.
type Fabric struct {
	Name  string `json:"name"`
	State string `json:"state"`           // "4: ACTIVE"
	Rate  string `json:"rate"`            // "400 Gb/sec (4X NDR)"
	Layer string `json:"layer,omitempty"` // absent: InfiniBand
	GUID  string `json:"guid,omitempty"`
}

// Read reads a description; a field that is not known is an error.
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

// filesOf describes the machine as texts of files and targets of symbolic links, by path.
func filesOf(s Spec) (files, links map[string]string, err error) {
	if s.CPU.Sockets < 1 || s.CPU.Cores < 1 || s.CPU.Threads < 1 || s.MemoryKiB < 1 {
		return nil, nil, fmt.Errorf("a machine needs sockets, cores, threads and memory_kib")
	}
	b := &builder{files: map[string]string{}, links: map[string]string{}}
	b.processors(s)
	b.memory(s)
	for _, d := range s.Devices {
		b.device(d)
	}
	for name, text := range s.DMI {
		b.file("sys/devices/virtual/dmi/id/"+name, text)
	}
	if len(s.DMI) > 0 {
		b.link("sys/class/dmi/id", "sys/devices/virtual/dmi/id")
	}
	if s.Addresses != nil {
		text, err := json.Marshal(s.Addresses)
		if err != nil {
			return nil, nil, err
		}
		b.file("addresses.json", string(text))
	}
	for name, text := range s.Files {
		b.file(name, text)
	}
	return b.files, b.links, b.err
}

// Build writes the machine below dir, which is made if it is not there.
func Build(s Spec, dir string) error {
	files, links, err := filesOf(s)
	if err != nil {
		return err
	}
	made := map[string]bool{}
	above := func(name string) (string, error) {
		full := filepath.Join(dir, name)
		if folder := filepath.Dir(full); !made[folder] {
			made[folder] = true
			return full, os.MkdirAll(folder, 0o755)
		}
		return full, nil
	}
	for name, text := range files {
		full, err := above(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, target := range links {
		full, err := above(name)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, full); err != nil {
			return err
		}
	}
	return nil
}

// BuildFile reads a description and writes the machine below dir.
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

// builder keeps the first error.
type builder struct {
	files, links map[string]string
	err          error
}

// free says whether a path is inside the machine and not taken.
func (b *builder) free(name string) bool {
	_, file := b.files[name]
	_, link := b.links[name]
	switch {
	case b.err != nil:
	case !filepath.IsLocal(name):
		b.err = fmt.Errorf("%q is no path inside the machine", name)
	case file || link:
		b.err = fmt.Errorf("%s is described twice", name)
	}
	return b.err == nil
}

func (b *builder) file(name, text string) {
	if b.free(name) {
		b.files[name] = strings.TrimSuffix(text, "\n") + "\n"
	}
}

// link makes a relative link from one path inside the machine to another.
func (b *builder) link(name, target string) {
	if b.free(name) {
		b.links[name] = strings.Repeat("../", strings.Count(name, "/")) + target
	}
}

func (b *builder) processors(s Spec) {
	cores := s.CPU.Sockets * s.CPU.Cores
	all := cores * s.CPU.Threads
	var online, offline, info []string
	for n := range all {
		folder := "sys/devices/system/cpu/cpu" + strconv.Itoa(n)
		if slices.Contains(s.CPU.Offline, n) {
			offline = append(offline, strconv.Itoa(n)) // the kernel takes its topology away
			b.file(folder+"/online", "0")
			continue
		}
		online = append(online, strconv.Itoa(n))
		core, socket := n%cores, n%cores/s.CPU.Cores
		var siblings, pkg []string
		for t := range s.CPU.Threads {
			if sibling := core + t*cores; !slices.Contains(s.CPU.Offline, sibling) {
				siblings = append(siblings, strconv.Itoa(sibling))
			}
			first := socket*s.CPU.Cores + t*cores
			pkg = append(pkg, span(first, first+s.CPU.Cores-1))
		}
		b.file(folder+"/online", "1")
		b.file(folder+"/topology/thread_siblings_list", strings.Join(siblings, ","))
		b.file(folder+"/topology/core_siblings_list", strings.Join(pkg, ","))
		b.file(folder+"/topology/physical_package_id", strconv.Itoa(socket))
		info = append(info, fmt.Sprintf("processor\t: %d\nvendor_id\t: %s\nmodel name\t: %s\nphysical id\t: %d\ncore id\t\t: %d\nflags\t\t: %s\n",
			n, s.CPU.Vendor, s.CPU.Model, socket, core%s.CPU.Cores, s.CPU.Flags))
	}
	b.file("sys/devices/system/cpu/online", strings.Join(online, ","))
	b.file("sys/devices/system/cpu/offline", strings.Join(offline, ","))
	b.file("proc/cpuinfo", strings.Join(info, "\n"))
}

func span(first, last int) string { return fmt.Sprintf("%d-%d", first, last) }

func (b *builder) memory(s Spec) {
	b.file("proc/meminfo", fmt.Sprintf("MemTotal:       %d kB\nMemFree:        %d kB\nHugePages_Total:   %d\nHugepagesize:       2048 kB\n",
		s.MemoryKiB, s.MemoryKiB/2, s.HugePages["2048"]))
	for size, pages := range s.HugePages {
		b.file("sys/kernel/mm/hugepages/hugepages-"+size+"kB/nr_hugepages", strconv.Itoa(pages))
	}
	if s.CPU.NoNUMA {
		return
	}
	cores := s.CPU.Sockets * s.CPU.Cores
	for node := range s.CPU.Sockets {
		folder := "sys/devices/system/node/node" + strconv.Itoa(node)
		var cpus []string
		for t := range s.CPU.Threads {
			first := node*s.CPU.Cores + t*cores
			cpus = append(cpus, span(first, first+s.CPU.Cores-1))
		}
		b.file(folder+"/cpulist", strings.Join(cpus, ","))
		b.file(folder+"/meminfo", fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n",
			node, s.MemoryKiB/int64(s.CPU.Sockets), node, s.MemoryKiB/int64(s.CPU.Sockets)/2))
		for size, pages := range s.HugePages {
			b.file(folder+"/hugepages/hugepages-"+size+"kB/nr_hugepages", strconv.Itoa(pages/s.CPU.Sockets))
		}
	}
}

// device writes a function, and returns its folder.
func (b *builder) device(d Device) string {
	if len(d.Address) < len("0000:00:00.0") || len(d.ID) != 9 || len(d.Class) != 6 || d.Subsystem != "" && len(d.Subsystem) != 9 {
		b.err = fmt.Errorf("device %q: want an address 0000:00:00.0, ids 10de:2330 and a class 030200", d.Address)
		return ""
	}
	bus := d.Address[:strings.LastIndexByte(d.Address, ':')]
	folder := "sys/devices/pci" + bus + "/" + d.Address
	write := func(name, text string) { b.file(folder+"/"+name, text) }
	write("vendor", "0x"+d.ID[:4])
	write("device", "0x"+d.ID[5:])
	write("class", "0x"+d.Class)
	if sub := d.Subsystem; sub != "" {
		vendor, device, _ := strings.Cut(sub, ":")
		write("subsystem_vendor", "0x"+vendor)
		write("subsystem_device", "0x"+device)
		write("modalias", modalias(d))
	}
	node := -1
	if d.NUMA != nil {
		node = *d.NUMA
	}
	write("numa_node", strconv.Itoa(node))
	b.link("sys/bus/pci/devices/"+d.Address, folder)
	if d.Driver != "" {
		b.link(folder+"/driver", "sys/bus/pci/drivers/"+d.Driver)
		b.link("sys/bus/pci/drivers/"+d.Driver+"/"+d.Address, folder)
	}
	for name, text := range d.Files {
		write(name, text)
	}
	for _, port := range d.Net {
		b.port(path.Join(folder, d.Virtio, "net", port.Name), port)
	}
	for _, f := range d.InfiniBand {
		write("infiniband/"+f.Name+"/ports/1/state", f.State)
		write("infiniband/"+f.Name+"/ports/1/rate", f.Rate)
		write("infiniband/"+f.Name+"/ports/1/link_layer", cmp.Or(f.Layer, "InfiniBand"))
		if f.GUID != "" {
			write("infiniband/"+f.Name+"/node_guid", f.GUID)
		}
	}
	if l := d.Link; l != nil {
		write("current_link_speed", l.Speed)
		write("current_link_width", strconv.Itoa(l.Width))
		write("max_link_speed", cmp.Or(l.MaxSpeed, l.Speed))
		write("max_link_width", strconv.Itoa(cmp.Or(l.MaxWidth, l.Width)))
	}
	if d.TotalVFs != nil {
		write("sriov_totalvfs", strconv.Itoa(*d.TotalVFs))
		write("sriov_numvfs", strconv.Itoa(len(d.VFs)))
	}
	for i, vf := range d.VFs {
		function := b.device(vf)
		b.link(function+"/physfn", folder)
		b.link(folder+"/virtfn"+strconv.Itoa(i), function)
	}
	return folder
}

// modalias is as the kernel prints it.
func modalias(d Device) string {
	id, sub, class := strings.ToUpper(d.ID), strings.ToUpper(d.Subsystem), strings.ToLower(d.Class)
	return "pci:v0000" + id[:4] + "d0000" + id[5:] + "sv0000" + sub[:4] + "sd0000" + sub[5:] + "bc" + class[:2] + "sc" + class[2:4] + "i" + class[4:]
}

func (b *builder) port(folder string, p Port) {
	state := p.State
	if state == "" {
		state = "up"
	}
	b.file(folder+"/operstate", state)
	for name, text := range map[string]string{"carrier": p.Carrier, "speed": p.Speed, "address": p.MAC, "phys_port_name": p.Port} {
		if text != "" {
			b.file(folder+"/"+name, text)
		}
	}
	if p.MTU > 0 {
		b.file(folder+"/mtu", strconv.Itoa(p.MTU))
	}
	b.link("sys/class/net/"+p.Name, folder)
}
