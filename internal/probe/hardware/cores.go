package hardware

import (
	"slices"
	"strconv"

	"github.com/prelet/prelet/internal/world"
)

// offlineCPUs are the threads that are there and switched off. The kernel's own list "offline" has also those that could
// be plugged in one day, hundreds in some virtual machines.
func (d *detection) offlineCPUs(online []int) []int {
	present := []int{}
	if text, err := d.text(cpuFolder + "/present"); err == nil {
		present, _ = parseCPUList(text)
		d.saw("cpu.offline", cpuFolder+"/present")
	} else {
		names, _ := d.names(cpuFolder) // recorded trees mostly leave the list out
		for _, name := range names {
			if n, ok := trailingNumber(name, "cpu"); ok {
				present = append(present, n)
			}
		}
		slices.Sort(present)
		d.saw("cpu.offline", cpuFolder+"/cpu*")
	}
	return slices.DeleteFunc(present, func(n int) bool { _, on := slices.BinarySearch(online, n); return on })
}

// smt says whether any core runs several threads. A core whose threads are not known counts as one thread, so that "no"
// needs the kernel's word.
func (d *detection) smt(cores []world.CPUCore) *bool {
	active := slices.ContainsFunc(cores, func(c world.CPUCore) bool { return len(c.CPUs) > 1 })
	if !active {
		text, err := d.text(cpuFolder + "/smt/active")
		if err == nil && (text == "0" || text == "1") {
			active = text == "1"
			d.saw("cpu.smt", cpuFolder+"/smt/active")
			return &active
		}
		if slices.ContainsFunc(d.unknown, func(u world.UnknownFact) bool { return isThreadsOfCore(u.Fact) }) {
			d.note("cpu.smt", "the kernel does not tell which threads share a core")
			return nil
		}
	}
	d.saw("cpu.smt", cpuFolder+"/cpu*/topology/thread_siblings_list")
	return &active
}

func isThreadsOfCore(fact string) bool {
	const before, after = "cpu.cores[", "].cpus"
	return len(fact) > len(before)+len(after) && fact[:len(before)] == before && fact[len(fact)-len(after):] == after
}

// Where Intel's processors have cores of several kinds, each kind has a performance counter of its own, which lists its
// CPUs. Source: Linux' tools/perf/Documentation/intel-hybrid.txt and arch/x86/events/intel/core.c.
var intelKinds = [...]struct{ folder, kind string }{
	{"sys/devices/cpu_core", "performance"}, {"sys/devices/cpu_atom", "efficient"}, {"sys/devices/cpu_lowpower", "low-power"},
}

// coreKinds tells kinds of cores apart, where the kernel does: by those lists on x86, by cpu_capacity elsewhere.
func (d *detection) coreKinds(cores []world.CPUCore) {
	if len(cores) == 0 {
		return
	}
	if !d.cpuinfo.flags {
		d.coresByCapacity(cores)
		return
	}
	if _, err := d.text("sys/devices/cpu_atom/cpus"); err != nil {
		return
	}
	for _, k := range intelKinds {
		text, err := d.text(k.folder + "/cpus")
		if err != nil {
			continue
		}
		list, _ := parseCPUList(text)
		for i := range cores {
			if _, in := slices.BinarySearch(list, cores[i].CPUs[0]); in {
				cores[i].Kind = &k.kind
			}
		}
	}
	d.saw("cpu.cores[].kind", "sys/devices/cpu_{core,atom,lowpower}/cpus")
}

// coresByCapacity compares what the kernel's scheduler thinks of each core: 1024 is the strongest of the machine. Cores of
// one kind differ by some per cent of clock, those of two kinds by half.
// Source: Documentation/ABI/testing/sysfs-devices-system-cpu, cpu_capacity.
func (d *detection) coresByCapacity(cores []world.CPUCore) {
	capacity := make([]int, len(cores))
	for i, core := range cores {
		text, err := d.text(cpuFolder + "/cpu" + strconv.Itoa(core.CPUs[0]) + "/cpu_capacity")
		n, convErr := strconv.Atoi(text)
		if err != nil || convErr != nil || n <= 0 {
			return
		}
		capacity[i] = n
	}
	strongest := slices.Max(capacity)
	isWeak := func(n int) bool { return n*4 < strongest*3 }
	if !slices.ContainsFunc(capacity, isWeak) {
		return
	}
	for i := range cores {
		kind := "performance"
		if isWeak(capacity[i]) {
			kind = "efficient"
		}
		cores[i].Kind = &kind
	}
	d.saw("cpu.cores[].kind", cpuFolder+"/cpu*/cpu_capacity")
}
