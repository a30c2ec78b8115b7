package hardware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jaypipes/ghw"

	"github.com/prelet/prelet/internal/world"
)

const nodesFolder = "sys/devices/system/node"

func nodeFolder(id int) string { return nodesFolder + "/node" + strconv.Itoa(id) }

// nodeIDs lists the NUMA nodes that are there, sorted; none where the kernel was built without NUMA.
func (d *detection) nodeIDs() []int {
	names, _ := d.ReadDir(nodesFolder)
	var ids []int
	for _, name := range names {
		if id, ok := trailingNumber(name, "node"); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// readMemory reads the machine's memory and its nodes.
func (d *detection) readMemory() error {
	const limit = 64 << 10
	data, err := d.ReadFile("proc/meminfo", limit)
	if err != nil {
		return fmt.Errorf("detect hardware: the size of the memory is needed and cannot be read: %w", err)
	}
	values := parseMeminfo(string(data))
	total, err := d.totalMemory()
	if err != nil {
		total = values["MemTotal"]
		d.note("memory.total_bytes", err.Error()+", so MemTotal of /proc/meminfo was read instead")
	}
	if total <= 0 {
		return fmt.Errorf("detect hardware: the size of the memory is needed and /proc/meminfo has no MemTotal")
	}
	d.saw("memory.total_bytes", "proc/meminfo")
	memory := world.Memory{TotalBytes: &total, HugePages: d.hugePages("sys/kernel/mm/hugepages", "memory.hugepages")}

	nodes := []world.NUMANode{}
	for _, id := range d.nodeIDs() {
		nodes = append(nodes, d.node(id))
	}
	if memory.HugePages == nil {
		memory.HugePages = d.hugePagesBelow(nodes, values)
	} else {
		d.saw("memory.hugepages", "sys/kernel/mm/hugepages/")
	}
	if len(nodes) == 0 {
		node := world.NUMANode{ID: 0, CPUs: allCPUs(d.facts.CPU), MemoryBytes: &total, HugePages: memory.HugePages}
		nodes = append(nodes, node)
		zero := 0
		cores := slices.Clone(d.facts.CPU.Cores)
		for i := range cores {
			cores[i].Node = &zero
		}
		d.facts.CPU.Cores = cores
		d.saw("numa", "proc/meminfo")
	} else {
		d.saw("numa", nodesFolder+"/")
	}
	d.facts.Memory, d.facts.NUMA = memory, nodes
	return nil
}

// totalMemory is the memory that the kernel manages. ghw is given nothing but /proc/meminfo: it would read the state of
// every block of memory, and the machine's syslog, for the size of what is plugged in, which no fact is made of.
func (d *detection) totalMemory() (int64, error) {
	const nowhere = "/dev/null" // a folder that is never there

	memory, warnings, err := ask(d, func(options ...any) (*ghw.MemoryInfo, error) {
		return ghw.Memory(append(options, ghw.WithPathOverrides(map[string]string{"/sys": nowhere, "/var": nowhere}))...)
	}, "proc/meminfo")
	d.noteWarnings("memory.total_bytes", warnings)

	if err != nil {
		return 0, err
	}
	return memory.TotalUsableBytes, nil
}

func (d *detection) node(id int) world.NUMANode {
	fact := "numa[" + strconv.Itoa(id) + "]"
	node := world.NUMANode{ID: id, CPUs: []int{}, HugePages: d.hugePages(nodeFolder(id)+"/hugepages", fact+".hugepages")}
	if node.HugePages == nil {
		node.HugePages = map[string]int{}
	}
	text, err := d.text(nodeFolder(id) + "/cpulist")
	list, parseErr := parseCPUList(text)
	switch {
	case err != nil:
		d.failed(fact+".cpus", err)
	case parseErr != nil:
		d.broken(fact+".cpus", fmt.Sprintf("cannot read /%s/cpulist: %v", nodeFolder(id), parseErr))
	default:
		online := allCPUs(d.facts.CPU)
		node.CPUs = slices.DeleteFunc(list, func(n int) bool { _, on := slices.BinarySearch(online, n); return !on })
	}
	data, err := d.ReadFile(nodeFolder(id)+"/meminfo", sysfsLimit)
	if err != nil {
		d.failed(fact+".memory_bytes", err)
		return node
	}
	if total, ok := parseMeminfo(string(data))["MemTotal"]; ok {
		node.MemoryBytes = &total
	} else {
		d.broken(fact+".memory_bytes", "cannot read /"+nodeFolder(id)+"/meminfo: it has no MemTotal")
	}
	return node
}

// hugePages counts pages by size, sizes without a page included; nil where the folder is not there.
func (d *detection) hugePages(folder, fact string) map[string]int {
	names, err := d.names(folder)
	if absent(err) {
		return nil
	}
	pages := map[string]int{}
	if err != nil {
		d.failed(fact, err)
		return pages
	}
	for _, name := range names {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB"), 10, 64)
		if err != nil || kib <= 0 {
			continue
		}
		text, err := d.text(folder + "/" + name + "/nr_hugepages")
		if err != nil {
			d.failed(fact+"["+binaryQuantity(kib)+"]", err)
			continue
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			pages[binaryQuantity(kib)] = n
		}
	}
	return pages
}

// hugePagesBelow adds up the nodes'. Where they have none either, /proc/meminfo knows the default size only.
func (d *detection) hugePagesBelow(nodes []world.NUMANode, meminfo map[string]int64) map[string]int {
	sum := map[string]int{}
	for _, node := range nodes {
		for size, n := range node.HugePages {
			sum[size] += n
		}
	}
	d.saw("memory.hugepages", nodesFolder+"/node*/hugepages/")
	size, pages := meminfo["Hugepagesize"], meminfo["HugePages_Total"]
	if len(sum) == 0 && size >= 1024 && pages < 1<<31 {
		sum[binaryQuantity(size/1024)] = int(pages)
		d.saw("memory.hugepages", "proc/meminfo")
	}
	return sum
}

func allCPUs(cpu world.CPU) []int {
	list := []int{}
	for _, core := range cpu.Cores {
		list = append(list, core.CPUs...)
	}
	slices.Sort(list)
	return list
}
