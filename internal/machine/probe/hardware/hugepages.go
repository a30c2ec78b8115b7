package hardware

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/texts"
)

// sysctlPages matches lines of sysctl.d that set the number of huge pages of the default size.
var sysctlPages = texts.LazyRegexp(`(?m)^[ \t-]*vm[./]nr_hugepages[ \t]*=[ \t]*([0-9]+)[ \t]*$`)

// noSize is what parsePageSize returns for another text.
const noSize = "0"

// readHugePagesAsked reads the numbers of huge pages that the kernel's command line asks for by size, also of sizes
// that the kernel lacks, and sysctl.d, which replaces the number of the default size. hugepages= is of the size before
// it, else of the default size; the first one of a size counts.
// Source: mm/hugetlb.c, hugepages_setup, hugepagesz_setup, default_hugepagesz_setup.
func (d *detection) readHugePagesAsked() {
	const fact, file = "memory.hugepages_asked", "proc/cmdline"
	commandLine, err := d.readText(file)
	if err != nil {
		d.noteError(fact, err)
		return
	}

	kib, _ := d.readField("proc/meminfo", "Hugepagesize")
	standard := parsePageSize(strings.TrimSuffix(kib, " kB") + "k")
	asked := map[string]int{}
	size := standard
	for _, word := range strings.Fields(commandLine) {
		name, value, _ := strings.Cut(strings.ReplaceAll(word, `"`, ""), "=")
		_, isAsked := asked[size]
		switch {
		case name == "sysctl.vm.nr_hugepages" || name == "sysctl.vm/nr_hugepages":
			asked[standard] = sumPages(value)
		case name == "hugepagesz" || name == "default_hugepagesz":
			size = parsePageSize(value)
		case name == "hugepages" && !isAsked:
			asked[size] = sumPages(value)
		}
	}

	d.setSource(fact, file)
	if pages, file := d.findSysctlPages(); file != "" && standard != noSize {
		asked[standard] = pages
		d.setSource(fact+"["+standard+"]", file)
	}

	delete(asked, noSize)
	d.facts.Memory.HugePagesAsked = asked
}

// parsePageSize returns a size as the kernel reads it, 2M, 1g, 1GB or 1073741824, as Kubernetes writes it.
// Source: lib/cmdline.c, memparse.
func parsePageSize(s string) string {
	s = strings.ToUpper(s)
	if end := strings.IndexAny(s, "KMGT"); end >= 0 {
		s = s[:end+1] + "i"
	}
	size, _ := kubelet.ParseQuantity(s) // else 0

	return binaryQuantity(max(size.Value(), 0) / 1024)
}

// sumPages returns a number of pages, which may be by NUMA node: 0:2,1:2.
func sumPages(s string) (sum int) {
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(part[strings.IndexByte(part, ':')+1:], 10, 31)
		if err == nil {
			sum += int(n)
		}
	}

	return sum
}

// findSysctlPages returns the number of huge pages in sysctl.d and its file, "" if there is none. Of files of one name
// that in the last folder counts, and of lines the last. What cannot be read systemd-sysctl has not applied either.
// Source: sysctl.d(5).
func (d *detection) findSysctlPages() (pages int, file string) {
	files := map[string]string{}
	for _, folder := range []string{"usr/lib", "usr/local/lib", "run", "etc"} {
		names, _ := d.ReadDir(folder + "/sysctl.d")
		for _, name := range names {
			files[name] = folder + "/sysctl.d/" + name
		}
	}

	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, _ := d.ReadFile(files[name], configLimit)
		for _, match := range sysctlPages().FindAllStringSubmatch(string(text), -1) {
			if strings.HasSuffix(name, ".conf") {
				pages, file = sumPages(match[1]), files[name]
			}
		}
	}

	return pages, file
}
