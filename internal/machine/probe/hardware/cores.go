package hardware

import (
	"slices"
	"strconv"

	"github.com/prelet/prelet/internal/model/tape"
)

// offlineCPUs returns the existing CPUs that are not online. The kernel's own list "offline" includes CPUs that
// could be plugged in later, hundreds in some virtual machines.
func (d *detection) offlineCPUs(online []int) []int {
	present := []int{}

	text, err := d.readText(cpuFolder + "/present")
	if err == nil {
		present, _ = parseCPUList(text)
		d.setSource("cpu.offline", cpuFolder+"/present")
	} else { // most recorded trees omit the list
		numbers, err := d.listNumbers(cpuFolder, "cpu")
		if err != nil {
			d.noteError("cpu.offline", err)
		}
		present = append(present, numbers...)
		d.setSource("cpu.offline", cpuFolder+"/cpu*")
	}

	return slices.DeleteFunc(present, func(n int) bool {
		return contains(online, n)
	})
}

const unknownThreads = "the kernel does not report which threads share a core"

// detectSMT reports whether any core runs several threads. A core with unknown threads counts as one thread, so
// "no" is returned only if the kernel confirms it.
func (d *detection) detectSMT(cores []tape.CPUCore) *bool {
	isActive := slices.ContainsFunc(cores, func(c tape.CPUCore) bool {
		return len(c.CPUs) > 1
	})
	if !isActive {
		text, err := d.readText(cpuFolder + "/smt/active")
		if err == nil && (text == "0" || text == "1") {
			isActive = text == "1"
			d.setSource("cpu.smt", cpuFolder+"/smt/active")

			return &isActive
		}

		if d.hasUnknown("cpu.cores", "cpus") {
			d.note("cpu.smt", unknownThreads)
			return nil
		}
	}

	d.setSource("cpu.smt", cpuFolder+"/cpu*/topology/thread_siblings_list")

	return &isActive
}

// intelKinds are the performance counters of Intel's processors with several kinds of cores. Each kind has its own
// counter, which lists its CPUs. Source: Linux' tools/perf/Documentation/intel-hybrid.txt and
// arch/x86/events/intel/core.c.
var intelKinds = [...]struct{ folder, kind string }{
	{"sys/devices/cpu_core", "performance"},
	{"sys/devices/cpu_atom", "efficient"},
	{"sys/devices/cpu_lowpower", "low-power"},
}

// setCoreKinds sets the kinds of cores if the kernel reports several: by performance counters on x86, by cpu_capacity
// elsewhere.
func (d *detection) setCoreKinds(cores []tape.CPUCore) {
	if !d.cpuinfo.hasFlags {
		d.setKindsByCapacity(cores)
		return
	}

	if _, err := d.readText("sys/devices/cpu_atom/cpus"); err != nil {
		return
	}

	for _, k := range intelKinds {
		text, _ := d.readText(k.folder + "/cpus")
		list, _ := parseCPUList(text)

		for i := range cores {
			if contains(list, cores[i].CPUs[0]) {
				cores[i].Kind = &k.kind
			}
		}
	}

	d.setSource("cpu.cores[].kind", "sys/devices/cpu_{core,atom,lowpower}/cpus")
}

// setKindsByCapacity compares the capacities that the kernel's scheduler uses: 1024 is the strongest core of the
// machine. The clocks of cores of one kind differ by a few per cent, those of two kinds by half.
// Source: Documentation/ABI/testing/sysfs-devices-system-cpu, cpu_capacity.
func (d *detection) setKindsByCapacity(cores []tape.CPUCore) {
	var capacities []int

	for _, core := range cores {
		text, _ := d.readText(cpuPath(core.CPUs[0]) + "/cpu_capacity")

		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			return
		}

		capacities = append(capacities, n)
	}

	isWeak := func(n int) bool {
		return n*4 < slices.Max(capacities)*3
	}
	if !slices.ContainsFunc(capacities, isWeak) {
		return
	}

	for i := range cores {
		kind := "performance"
		if isWeak(capacities[i]) {
			kind = "efficient"
		}

		cores[i].Kind = &kind
	}

	d.setSource("cpu.cores[].kind", cpuFolder+"/cpu*/cpu_capacity")
}
