package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

const cpuFolder = "sys/devices/system/cpu"

// cpuinfoHead is enough for the first processor, and for all of a machine with several models, as big.LITTLE. The whole
// file is large, and the kernel generates it line by line: 350 KB for 224 processors.
const cpuinfoHead = 16 << 10

// wholeCPUInfo is larger than the file of any machine.
const wholeCPUInfo = 16 << 20

// readCPU counts the CPUs that are online. A CPU that is offline has a folder, but no threads.
func (d *detection) readCPU() error {
	head, err := d.ReadFile("proc/cpuinfo", cpuinfoHead)
	d.cpuinfo = parseCPUInfo(string(head[:bytes.LastIndexByte(head, '\n')+1]))
	cpu := tape.CPU{
		Vendor: d.cpuinfo.vendor,
		Model:  d.cpuinfo.model,
		Arch:   d.cpuinfo.architecture,
	}

	for name, value := range map[string]*string{
		"vendor":       cpu.Vendor,
		"model":        cpu.Model,
		"architecture": cpu.Arch,
	} {
		if err != nil {
			d.noteError("cpu."+name, err)
			continue
		}

		d.setSource("cpu."+name, "proc/cpuinfo")

		if value == nil {
			d.note("cpu."+name, "/proc/cpuinfo names no "+name)
		}
	}

	online, err := d.onlineCPUs()
	if err != nil {
		return fmt.Errorf("detect hardware: the number of CPUs is needed and cannot be read: %w", err)
	}

	count := len(online)
	cpu.Logical = &count
	cpu.Cores = d.readCores(online)
	if d.hasUnknown("cpu.cores", "cpus") { // each thread counts as a core then
		d.note("cpu.cores", unknownThreads)
	}
	cpu.Offline = d.offlineCPUs(online)
	cpu.SMT = d.detectSMT(cpu.Cores)
	d.setCoreKinds(cpu.Cores)
	d.facts.CPU = cpu

	return nil
}

// onlineCPUs reads the kernel's own list, otherwise the folders (snapshots omit the list), otherwise /proc/cpuinfo.
func (d *detection) onlineCPUs() ([]int, error) {
	listed, listErr := d.readText(cpuFolder + "/online")
	if listErr == nil {
		online, err := parseCPUList(listed)
		if err == nil && len(online) > 0 {
			d.setSource("cpu.logical", cpuFolder+"/online")
			return online, nil
		}

		listErr = fmt.Errorf("/%s/online holds %q", cpuFolder, listed)
	}

	online, err := d.listNumbers(cpuFolder, "cpu")
	online = slices.DeleteFunc(online, func(n int) bool {
		state, err := d.readText(cpuPath(n) + "/online")
		return err == nil && state == "0"
	})

	if err == nil && len(online) > 0 {
		d.setSource("cpu.logical", cpuFolder+"/cpu*/online")
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

	d.setSource("cpu.logical", "proc/cpuinfo")

	return online, nil
}

func cpuPath(n int) string { return cpuFolder + "/cpu" + strconv.Itoa(n) }

// readCores groups the threads that are online.
func (d *detection) readCores(online []int) []tape.CPUCore {
	d.setSource("cpu.cores", cpuFolder+"/cpu*/topology/")

	nodes := d.nodesByCPU()
	packages := map[int]*int{}
	seen := map[int]bool{}
	cores := []tape.CPUCore{}

	for _, n := range online {
		if seen[n] {
			continue
		}

		topology := cpuPath(n) + "/topology/"
		threads := slices.DeleteFunc(d.readSiblings(topology, n), func(sibling int) bool {
			return seen[sibling] || !contains(online, sibling)
		})

		for _, thread := range threads {
			seen[thread] = true
		}

		if packages[n] == nil {
			packages[n] = d.readPackage(topology, n)

			for _, other := range d.readPackageCPUs(topology) {
				packages[other] = packages[n]
			}
		}

		core := tape.CPUCore{Package: packages[n], CPUs: threads}
		if id, ok := nodes[n]; ok {
			core.Node = &id
		}

		cores = append(cores, core)
	}

	return cores
}

func contains(sorted []int, n int) bool {
	_, found := slices.BinarySearch(sorted, n)
	return found
}

// readSiblings returns the threads of the core of CPU n, including n.
func (d *detection) readSiblings(topology string, n int) []int {
	text, err := d.readText(topology + "thread_siblings_list")
	if isAbsent(err) {
		text, err = d.readText(topology + "core_cpus_list") // its name since Linux 5.1
	}

	list, parseErr := parseCPUList(text)
	fact := "cpu.cores[" + strconv.Itoa(n) + "].cpus"

	switch {
	case err != nil:
		d.noteError(fact, err)
	case parseErr != nil || !slices.Contains(list, n):
		d.noteBroken(fact, fmt.Sprintf("cannot read /%sthread_siblings_list: it holds %q", topology, text))
	default:
		return list
	}

	return []int{n}
}

// readPackage returns the socket of CPU n.
func (d *detection) readPackage(topology string, n int) *int {
	fact := "cpu.cores[" + strconv.Itoa(n) + "].package"

	text, err := d.readText(topology + "physical_package_id")
	if err != nil {
		d.noteError(fact, err)
		return nil
	}

	id := parseCount(text)
	if id == nil {
		d.note(fact, fmt.Sprintf("the kernel gives package %q", text))
	}

	return id
}

// readPackageCPUs returns the CPUs of the same socket, whose files then need not be read; nil if they are not listed.
func (d *detection) readPackageCPUs(topology string) []int {
	text, _ := d.readText(topology + "core_siblings_list")
	list, _ := parseCPUList(text)

	return list
}

// nodesByCPU inverts the nodes' CPU lists. readMemory reports their errors.
func (d *detection) nodesByCPU() map[int]int {
	nodes := map[int]int{}

	ids, _ := d.nodeIDs()
	for _, node := range ids {
		text, _ := d.readText(nodeFolder(node) + "/cpulist")
		list, _ := parseCPUList(text)

		for _, n := range list {
			nodes[n] = node
		}
	}

	return nodes
}

// cpuInfo is the content of /proc/cpuinfo: the numbers of all processors, the models of Arm's, the rest of the first.
type cpuInfo struct {
	vendor, model *string
	architecture  *string
	hasFlags      bool // flags are listed, as on x86
	isGuest       bool // flag "hypervisor"
	processors    []int
}

// parseCPUInfo parses the formats of x86, Arm, POWER and s390x.
func parseCPUInfo(s string) cpuInfo {
	info := cpuInfo{processors: []int{}}
	implementer := ""
	set := func(field **string, value string) {
		if *field == nil && value != "" {
			*field = &value
		}
	}

	for key, value := range parseFields(s) {
		switch key {
		case "processor", "cpu number":
			n, isNumber := parseCPU(value)
			if isNumber && len(info.processors) < maxCPU {
				info.processors = append(info.processors, n)
			}
		case "vendor_id":
			set(&info.vendor, value)
		case "CPU implementer":
			implementer = value
			set(&info.vendor, lookUp(armNames, value))
		case "CPU part":
			model := lookUp(armNames, implementer+"/"+value)
			set(&info.model, model)
			if model != "" && !slices.Contains(strings.Split(*info.model, " + "), model) {
				*info.model += " + " + model
			}
		case "model name", "cpu":
			set(&info.model, value)
		case "CPU architecture":
			if value == "8" {
				set(&info.architecture, "arm64")
			}
		case "flags": // of x86
			set(&info.architecture, "amd64")
			if !info.hasFlags {
				info.hasFlags = true
				info.isGuest = slices.Contains(strings.Fields(value), "hypervisor")
			}
		}
	}

	slices.Sort(info.processors)
	info.processors = slices.Compact(info.processors)

	return info
}
