package hardware

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

const cpuFolder = "sys/devices/system/cpu"

// cpuinfoHead is enough for the first processor. The whole file of 224 is 350 KB, and the kernel makes it line by line.
const cpuinfoHead = 16 << 10

// wholeCPUInfo is more than the file of any machine.
const wholeCPUInfo = 16 << 20

// readCPU counts what is online: a CPU that is off has a folder and no threads to give.
func (d *detection) readCPU() error {
	head, err := d.ReadFile("proc/cpuinfo", cpuinfoHead)
	if err != nil {
		d.failed("cpu.vendor", err)
		d.failed("cpu.model", err)
	} else {
		d.cpuinfo = parseCPUInfo(string(head))
		d.saw("cpu.vendor", "proc/cpuinfo")
		d.saw("cpu.model", "proc/cpuinfo")
	}
	cpu := world.CPU{Vendor: d.cpuinfo.vendor, Model: d.cpuinfo.model}
	if err == nil && cpu.Vendor == nil {
		d.note("cpu.vendor", "/proc/cpuinfo names no vendor")
	}
	if err == nil && cpu.Model == nil {
		d.note("cpu.model", "/proc/cpuinfo names no model")
	}

	online, err := d.onlineCPUs()
	if err != nil {
		return fmt.Errorf("detect hardware: the number of CPUs is needed and cannot be read: %w", err)
	}
	count := len(online)
	cpu.Logical = &count
	cpu.Cores = d.cores(online)
	cpu.Offline = d.offlineCPUs(online)
	cpu.SMT = d.smt(cpu.Cores)
	d.coreKinds(cpu.Cores)
	d.facts.CPU = cpu
	return nil
}

// onlineCPUs asks the kernel's own list first, then the folders (snapshots leave the list out), then /proc/cpuinfo.
func (d *detection) onlineCPUs() ([]int, error) {
	listed, listErr := d.text(cpuFolder + "/online")
	if listErr == nil {
		online, err := parseCPUList(listed)
		if err == nil && len(online) > 0 {
			d.saw("cpu.logical", cpuFolder+"/online")
			return online, nil
		}
		listErr = fmt.Errorf("/%s/online holds %q", cpuFolder, listed)
	}
	names, err := d.names(cpuFolder)
	var online []int
	for _, name := range names {
		if n, ok := trailingNumber(name, "cpu"); ok {
			if state, err := d.text(cpuFolder + "/" + name + "/online"); err != nil || state != "0" {
				online = append(online, n)
			}
		}
	}
	if err == nil && len(online) > 0 {
		slices.Sort(online)
		d.saw("cpu.logical", cpuFolder+"/cpu*/online")
		return online, nil
	}
	data, err := d.ReadFile("proc/cpuinfo", wholeCPUInfo)
	if err != nil {
		return nil, errors.Join(listErr, err)
	}
	online = parseCPUInfo(string(data)).processors
	if len(online) == 0 {
		return nil, errors.Join(listErr, errors.New("/proc/cpuinfo lists none"))
	}
	d.saw("cpu.logical", "proc/cpuinfo")
	return online, nil
}

// cores groups threads.
func (d *detection) cores(online []int) []world.CPUCore {
	node := d.nodeOfCPU()
	seen := map[int]bool{}
	isOnline := map[int]bool{}
	for _, n := range online {
		isOnline[n] = true
	}
	cores := []world.CPUCore{}
	d.saw("cpu.cores", cpuFolder+"/cpu*/topology/")
	for _, n := range online {
		if seen[n] {
			continue
		}
		topology := cpuFolder + "/cpu" + strconv.Itoa(n) + "/topology/"
		threads := []int{}
		for _, sibling := range d.siblings(topology, n) {
			if isOnline[sibling] && !seen[sibling] {
				threads = append(threads, sibling)
				seen[sibling] = true
			}
		}
		core := world.CPUCore{Package: d.packageOf(topology, n), CPUs: threads}
		if id, ok := node[n]; ok {
			core.Node = &id
		}
		cores = append(cores, core)
	}
	return cores
}

// siblings are the threads of n's core, n among them.
func (d *detection) siblings(topology string, n int) []int {
	text, err := d.text(topology + "thread_siblings_list")
	if absent(err) {
		text, err = d.text(topology + "core_cpus_list") // its name since Linux 5.1
	}
	list, parseErr := parseCPUList(text)
	fact := "cpu.cores[" + strconv.Itoa(n) + "].cpus"
	switch {
	case err != nil:
		d.failed(fact, err)
	case parseErr != nil || !slices.Contains(list, n):
		d.broken(fact, fmt.Sprintf("cannot read /%sthread_siblings_list: it holds %q", topology, text))
	default:
		return list
	}
	return []int{n}
}

// packageOf reads the socket of CPU n.
func (d *detection) packageOf(topology string, n int) *int {
	text, err := d.text(topology + "physical_package_id")
	fact := "cpu.cores[" + strconv.Itoa(n) + "].package"
	if err != nil {
		d.failed(fact, err)
		return nil
	}

	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		d.note(fact, fmt.Sprintf("the kernel gives package %q", text))
		return nil
	}

	return &id
}

// nodeOfCPU inverts the nodes' CPU lists; without nodes all are of node 0.
func (d *detection) nodeOfCPU() map[int]int {
	of := map[int]int{}
	for _, node := range d.nodeIDs() {
		text, err := d.text(nodeFolder(node) + "/cpulist")
		if err != nil {
			continue // readMemory says so, once
		}
		list, _ := parseCPUList(text)
		for _, n := range list {
			of[n] = node
		}
	}
	return of
}

// cpuInfo is what /proc/cpuinfo tells, of the first processor except for the numbers.
type cpuInfo struct {
	vendor, model *string
	flags         bool // flags were listed, as x86 does
	hypervisor    bool // flag "hypervisor": a guest
	processors    []int
}

// parseCPUInfo reads x86's, Arm's, POWER's and s390x's forms.
func parseCPUInfo(s string) cpuInfo {
	info := cpuInfo{processors: []int{}}
	implementer := ""
	set := func(field **string, value string) {
		if *field == nil && value != "" {
			*field = &value
		}
	}
	for key, value := range fields(s) {
		switch key {
		case "processor", "cpu number":
			if n, err := parseCPU(value); err == nil && len(info.processors) < maxCPU {
				info.processors = append(info.processors, n)
			}
		case "vendor_id":
			set(&info.vendor, value)
		case "CPU implementer":
			implementer = value
			set(&info.vendor, armImplementer(value))
		case "CPU part":
			set(&info.model, armPart(implementer, value))
		case "model name", "cpu":
			set(&info.model, value)
		case "flags":
			if !info.flags {
				info.flags = true
				info.hypervisor = slices.Contains(strings.Fields(value), "hypervisor")
			}
		}
	}
	slices.Sort(info.processors)
	info.processors = slices.Compact(info.processors)
	return info
}
