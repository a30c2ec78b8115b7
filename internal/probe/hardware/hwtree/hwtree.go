// Package hwtree builds a machine from a short description: the folders, files and links of /sys, /proc and /etc that
// hardware.Detect reads. Tests and the demo call BuildFile, so that a machine with eight GPUs is a page of JSON instead
// of ten thousand files in the repository. It must not write outside of the given folder.
package hwtree

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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
	Note      string              `json:"note,omitempty"` // the source of the description
	CPU       CPU                 `json:"cpu"`
	MemoryKiB int64               `json:"memory_kib"`
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

// describe returns the texts of files and the targets of symbolic links, by path.
func describe(s Spec) (files, links map[string]string, err error) {
	least := min(s.CPU.Sockets, s.CPU.Cores, s.CPU.Threads)
	if least < 1 || s.MemoryKiB < 1 {
		return nil, nil, errors.New("a machine needs sockets, cores, threads and memory_kib")
	}

	b := &builder{
		files: map[string]string{},
		links: map[string]string{},
	}
	b.addProcessors(s)
	b.addMemory(s)
	for _, d := range s.Devices {
		b.addDevice(d)
	}
	for name, text := range s.DMI {
		b.addFile("sys/devices/virtual/dmi/id/"+name, text)
	}
	if len(s.DMI) > 0 {
		b.addLink("sys/class/dmi/id", "sys/devices/virtual/dmi/id")
	}
	if s.Addresses != nil {
		text, err := json.Marshal(s.Addresses)
		if err != nil {
			return nil, nil, err
		}

		b.addFile("addresses.json", string(text))
	}
	for name, text := range s.Files {
		b.addFile(name, text)
	}
	return b.files, b.links, b.err
}

// Build writes the machine below dir, which is created if it does not exist.
func Build(s Spec, dir string) error {
	files, links, err := describe(s)
	if err != nil {
		return err
	}
	for name, text := range files {
		path, err := makeParent(dir, name)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			return err
		}
	}

	for name, target := range links {
		path, err := makeParent(dir, name)
		if err == nil {
			err = os.Symlink(target, path)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// makeParent makes the folder of a file below dir, and returns the path of the file.
func makeParent(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	folder := filepath.Dir(path)

	return path, os.MkdirAll(folder, 0o755)
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

// builder keeps the first error.
type builder struct {
	files, links map[string]string
	err          error
}

// checkPath reports whether a path is inside the machine and not described yet.
func (b *builder) checkPath(name string) bool {
	_, file := b.files[name]
	_, link := b.links[name]
	switch {
	case b.err != nil:
	case !filepath.IsLocal(name):
		b.err = fmt.Errorf("invalid path %q: not inside the machine", name)
	case file || link:
		b.err = fmt.Errorf("%s is described twice", name)
	}
	return b.err == nil
}

// addFile adds a file with one newline at its end.
func (b *builder) addFile(name, text string) {
	if b.checkPath(name) {
		line := strings.TrimSuffix(text, "\n")
		b.files[name] = line + "\n"
	}
}

// addLink adds a relative link from one path inside the machine to another.
func (b *builder) addLink(name, target string) {
	if b.checkPath(name) {
		depth := strings.Count(name, "/")
		b.links[name] = strings.Repeat("../", depth) + target
	}
}

func (b *builder) addProcessors(s Spec) {
	var online, offline, info []string

	count := s.CPU.Sockets * s.CPU.Cores * s.CPU.Threads

	for n := range count {
		number := strconv.Itoa(n)
		folder := "sys/devices/system/cpu/cpu" + number

		if slices.Contains(s.CPU.Offline, n) {
			offline = append(offline, number)
			b.addFile(folder+"/online", "0") // the kernel removes its topology

			continue
		}

		online = append(online, number)
		text := b.addProcessor(s.CPU, n, folder)
		info = append(info, text)
	}

	b.addFile("sys/devices/system/cpu/online", strings.Join(online, ","))
	b.addFile("sys/devices/system/cpu/offline", strings.Join(offline, ","))
	b.addFile("proc/cpuinfo", strings.Join(info, "\n"))
}

// addProcessor adds the topology of CPU n, and returns its part of /proc/cpuinfo.
func (b *builder) addProcessor(cpu CPU, n int, folder string) string {
	cores := cpu.Sockets * cpu.Cores
	core := n % cores
	socket := core / cpu.Cores

	var siblings []string

	for t := range cpu.Threads {
		sibling := core + t*cores
		if !slices.Contains(cpu.Offline, sibling) {
			siblings = append(siblings, strconv.Itoa(sibling))
		}
	}

	b.addFile(folder+"/online", "1")
	threads := strings.Join(siblings, ",")
	b.addFile(folder+"/topology/thread_siblings_list", threads)
	b.addFile(folder+"/topology/core_siblings_list", socketCPUs(cpu, socket))
	b.addFile(folder+"/topology/physical_package_id", strconv.Itoa(socket))

	return fmt.Sprintf(
		"processor\t: %d\nvendor_id\t: %s\nmodel name\t: %s\nphysical id\t: %d\ncore id\t\t: %d\nflags\t\t: %s\n",
		n,
		cpu.Vendor,
		cpu.Model,
		socket,
		core%cpu.Cores,
		cpu.Flags,
	)
}

// socketCPUs returns the CPUs of a socket in the kernel's list format.
func socketCPUs(cpu CPU, socket int) string {
	var ranges []string

	for t := range cpu.Threads {
		first := (socket + t*cpu.Sockets) * cpu.Cores
		last := first + cpu.Cores - 1
		ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
	}

	return strings.Join(ranges, ",")
}

func (b *builder) addMemory(s Spec) {
	b.addFile("proc/meminfo", fmt.Sprintf(
		"MemTotal:       %d kB\nMemFree:        %d kB\nHugePages_Total:   %d\nHugepagesize:       2048 kB\n",
		s.MemoryKiB,
		s.MemoryKiB/2,
		s.HugePages["2048"],
	))
	b.addHugePages("sys/kernel/mm", s.HugePages, 1)

	if s.CPU.NoNUMA {
		return
	}

	for node := range s.CPU.Sockets {
		folder := "sys/devices/system/node/node" + strconv.Itoa(node)
		kib := s.MemoryKiB / int64(s.CPU.Sockets)

		b.addFile(folder+"/cpulist", socketCPUs(s.CPU, node))
		b.addFile(folder+"/meminfo", fmt.Sprintf(
			"Node %d MemTotal:       %d kB\nNode %[1]d MemFree:        %[3]d kB\n",
			node,
			kib,
			kib/2,
		))
		b.addHugePages(folder, s.HugePages, s.CPU.Sockets)
	}
}

// addHugePages adds the share of one of several nodes.
func (b *builder) addHugePages(folder string, pages map[string]int, nodes int) {
	for size, n := range pages {
		share := strconv.Itoa(n / nodes)
		b.addFile(folder+"/hugepages/hugepages-"+size+"kB/nr_hugepages", share)
	}
}

// addDevice adds a function, and returns its folder.
func (b *builder) addDevice(d Device) string {
	isSubsystem := d.Subsystem == "" || len(d.Subsystem) == 9
	isAddress := len(d.Address) >= len("0000:00:00.0")
	isID := len(d.ID) == 9 && len(d.Class) == 6

	if !isAddress || !isID || !isSubsystem {
		b.err = fmt.Errorf("device %q: want an address 0000:00:00.0, ids 10de:2330 and a class 030200", d.Address)
		return ""
	}

	end := strings.LastIndexByte(d.Address, ':')
	bus := d.Address[:end]
	folder := "sys/devices/pci" + bus + "/" + d.Address
	b.addLink("sys/bus/pci/devices/"+d.Address, folder)

	if d.Driver != "" {
		b.addLink(folder+"/driver", "sys/bus/pci/drivers/"+d.Driver)
		b.addLink("sys/bus/pci/drivers/"+d.Driver+"/"+d.Address, folder)
	}

	for name, text := range d.attributes() {
		b.addFile(folder+"/"+name, text)
	}

	for name, text := range d.Files {
		b.addFile(folder+"/"+name, text)
	}

	for _, port := range d.Net {
		portFolder := path.Join(folder, d.Virtio, "net", port.Name)
		b.addPort(portFolder, port)
	}

	for i, vf := range d.VFs {
		function := b.addDevice(vf)
		b.addLink(function+"/physfn", folder)
		b.addLink(folder+"/virtfn"+strconv.Itoa(i), function)
	}

	return folder
}

// attributes returns the files in the folder of a function.
func (d Device) attributes() map[string]string {
	files := map[string]string{
		"vendor":    "0x" + d.ID[:4],
		"device":    "0x" + d.ID[5:],
		"class":     "0x" + d.Class,
		"numa_node": "-1",
	}

	if d.NUMA != nil {
		files["numa_node"] = strconv.Itoa(*d.NUMA)
	}

	if vendor, device, ok := strings.Cut(d.Subsystem, ":"); ok {
		files["subsystem_vendor"] = "0x" + vendor
		files["subsystem_device"] = "0x" + device
		files["modalias"] = formatModalias(d)
	}

	for _, f := range d.InfiniBand {
		port := "infiniband/" + f.Name + "/ports/1/"
		files[port+"state"] = f.State
		files[port+"rate"] = f.Rate
		files[port+"link_layer"] = cmp.Or(f.Layer, "InfiniBand")

		if f.GUID != "" {
			files["infiniband/"+f.Name+"/node_guid"] = f.GUID
		}
	}

	if l := d.Link; l != nil {
		files["current_link_speed"] = l.Speed
		files["current_link_width"] = strconv.Itoa(l.Width)
		files["max_link_speed"] = cmp.Or(l.MaxSpeed, l.Speed)

		width := cmp.Or(l.MaxWidth, l.Width)
		files["max_link_width"] = strconv.Itoa(width)
	}

	if d.TotalVFs != nil {
		files["sriov_totalvfs"] = strconv.Itoa(*d.TotalVFs)
		files["sriov_numvfs"] = strconv.Itoa(len(d.VFs))
	}

	return files
}

// formatModalias returns the modalias in the kernel's format.
func formatModalias(d Device) string {
	id := strings.ToUpper(d.ID)
	subsystem := strings.ToUpper(d.Subsystem)
	class := strings.ToLower(d.Class)

	return fmt.Sprintf(
		"pci:v0000%sd0000%ssv0000%ssd0000%sbc%ssc%si%s",
		id[:4],
		id[5:],
		subsystem[:4],
		subsystem[5:],
		class[:2],
		class[2:4],
		class[4:],
	)
}

func (b *builder) addPort(folder string, p Port) {
	b.addLink("sys/class/net/"+p.Name, folder)

	state := cmp.Or(p.State, "up")
	b.addFile(folder+"/operstate", state)

	if p.MTU > 0 {
		b.addFile(folder+"/mtu", strconv.Itoa(p.MTU))
	}

	for name, text := range map[string]string{
		"carrier":        p.Carrier,
		"speed":          p.Speed,
		"address":        p.MAC,
		"phys_port_name": p.Port,
	} {
		if text != "" {
			b.addFile(folder+"/"+name, text)
		}
	}
}
