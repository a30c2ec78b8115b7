package hardware

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

const nodesFolder = "sys/devices/system/node"

func nodeFolder(id int) string { return nodesFolder + "/node" + strconv.Itoa(id) }

// nodeIDs returns the NUMA nodes, sorted; none if the kernel was built without NUMA. A kernel that shows no devices at
// all is an error.
func (d *detection) nodeIDs() ([]int, error) {
	ids, err := d.listNumbers(nodesFolder, "node")
	if isAbsent(err) {
		_, err = d.ReadDir("sys/devices/system")
	}

	return ids, err
}

// readMemory reads the machine's memory and its NUMA nodes.
func (d *detection) readMemory() error {
	const limit = 64 << 10

	data, err := d.ReadFile("proc/meminfo", limit)
	if err != nil {
		return fmt.Errorf("detect hardware: the size of the memory is needed and cannot be read: %w", err)
	}

	values := parseMeminfo(string(data))

	total := values["MemTotal"]
	if total <= 0 {
		return errors.New("detect hardware: the size of the memory is needed and /proc/meminfo has no MemTotal")
	}

	d.setSource("memory.total_bytes", "proc/meminfo")

	ids, err := d.nodeIDs()
	if err != nil {
		d.noteError("numa", err)
	}
	nodes := []tape.NUMANode{}
	for _, id := range ids {
		nodes = append(nodes, d.readNode(id))
	}
	if d.hasUnknown("numa", "cpus") {
		d.note("cpu.cores[].node", "it is not known which CPUs each NUMA node has")
	}

	hugePages := d.readHugePages("sys/kernel/mm/hugepages", "memory.hugepages")
	if hugePages == nil {
		hugePages = d.sumHugePages(nodes, values)
	} else {
		d.setSource("memory.hugepages", "sys/kernel/mm/hugepages/")
	}

	d.facts.Memory = tape.Memory{TotalBytes: &total, HugePages: hugePages, HugePagesAsked: map[string]int{}}
	d.readMemoryErrors()
	d.setSource("numa", nodesFolder+"/")

	if len(nodes) == 0 {
		nodes = append(nodes, d.assumeNode(d.facts.Memory))
	}

	d.facts.NUMA = nodes

	return nil
}

// assumeNode returns node 0 with all CPUs and the whole memory, for a kernel without NUMA.
func (d *detection) assumeNode(memory tape.Memory) tape.NUMANode {
	zero := 0

	cores := slices.Clone(d.facts.CPU.Cores)
	for i := range cores {
		cores[i].Node = &zero
	}

	d.facts.CPU.Cores = cores
	d.setSource("numa", "proc/meminfo")

	return tape.NUMANode{
		ID:          0,
		CPUs:        allCPUs(d.facts.CPU),
		MemoryBytes: memory.TotalBytes,
		HugePages:   memory.HugePages,
	}
}

func (d *detection) readNode(id int) tape.NUMANode {
	fact, folder := "numa["+strconv.Itoa(id)+"]", nodeFolder(id)

	node := tape.NUMANode{
		ID:        id,
		CPUs:      []int{},
		HugePages: map[string]int{},
	}

	pages := d.readHugePages(folder+"/hugepages", fact+".hugepages")
	maps.Copy(node.HugePages, pages)

	text, err := d.readText(folder + "/cpulist")
	list, parseErr := parseCPUList(text)

	switch {
	case err != nil:
		d.noteError(fact+".cpus", err)
	case parseErr != nil:
		d.noteBroken(fact+".cpus", fmt.Sprintf("cannot read /%s/cpulist: %v", folder, parseErr))
	default:
		online := allCPUs(d.facts.CPU)
		node.CPUs = slices.DeleteFunc(list, func(n int) bool {
			return !contains(online, n)
		})
	}

	data, err := d.ReadFile(folder+"/meminfo", sysfsLimit)
	total, exists := parseMeminfo(string(data))["MemTotal"]

	switch {
	case err != nil:
		d.noteError(fact+".memory_bytes", err)
	case !exists:
		d.noteBroken(fact+".memory_bytes", "cannot read /"+folder+"/meminfo: it has no MemTotal")
	default:
		node.MemoryBytes = &total
	}

	return node
}

// readHugePages counts pages by size, including sizes without a page; nil if the folder does not exist.
func (d *detection) readHugePages(folder, fact string) map[string]int {
	names, err := d.list(folder)
	if isAbsent(err) {
		return nil
	}

	if err != nil {
		d.noteError(fact, err)
	}

	pages := map[string]int{}

	for _, name := range names {
		number := strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB")

		kib, err := strconv.ParseInt(number, 10, 32)
		if err != nil || kib <= 0 {
			continue
		}

		size := binaryQuantity(kib)

		text, err := d.readText(folder + "/" + name + "/nr_hugepages")
		n := parseCount(text)
		switch {
		case err != nil:
			d.noteError(fact+"["+size+"]", err)
		case n == nil:
			d.note(fact+"["+size+"]", fmt.Sprintf("the kernel gives %.40q", text))
		default:
			pages[size] = *n
		}
	}

	return pages
}

// sumHugePages adds the pages of all nodes. If they have none either, it uses /proc/meminfo, which has only the
// default size.
func (d *detection) sumHugePages(nodes []tape.NUMANode, meminfo map[string]int64) map[string]int {
	d.setSource("memory.hugepages", nodesFolder+"/node*/hugepages/")

	sum := map[string]int{}
	for _, node := range nodes {
		for size, n := range node.HugePages {
			sum[size] += n
		}
	}

	why := ""
	if d.hasUnknown("numa", "hugepages") {
		why = "those of some NUMA nodes are not known"
	}

	size, pages := meminfo["Hugepagesize"], meminfo["HugePages_Total"]
	if len(sum) == 0 && size >= 1024 && pages < 1<<31 {
		sum[binaryQuantity(size/1024)] = int(pages)
		d.setSource("memory.hugepages", "proc/meminfo")
		why = "/proc/meminfo has those of one size"
	}
	if why != "" {
		d.note("memory.hugepages", why)
	}

	return sum
}

func allCPUs(cpu tape.CPU) []int {
	list := []int{}
	for _, core := range cpu.Cores {
		list = append(list, core.CPUs...)
	}

	slices.Sort(list)

	return list
}
