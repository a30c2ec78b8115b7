package hardware

import (
	"iter"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// maxCPU limits CPU numbers. Linux is built for at most 8192 CPUs.
const maxCPU = 1 << 16

// parseCPUList parses the kernel's list format, "0-3,8,10-11", into sorted numbers without repetitions. An empty
// list is valid. Source: Documentation/admin-guide/kernel-parameters.rst, "cpu lists".
func parseCPUList(s string) ([]int, error) {
	set, err := kubelet.ParseCPUSet(strings.TrimSpace(s))
	return set.List(), err
}

// parseCPU parses a CPU number; false for another text.
func parseCPU(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && n < maxCPU
}

// parseFields yields key and value of lines "key : value", the format of cpuinfo, meminfo and similar files. Lines
// without a colon are skipped.
func parseFields(s string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(s) {
			key, value, ok := strings.Cut(line, ":")
			if ok && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// findField returns the value of the first field with a key, "" if the key is missing.
func findField(data []byte, key string) string {
	for k, value := range parseFields(string(data)) {
		if k == key {
			return value
		}
	}

	return ""
}

// readField is findField for a small file.
func (d *detection) readField(name, key string) (string, error) {
	data, err := d.ReadFile(name, sysfsLimit)
	return findField(data, key), err
}

// parseMeminfo parses /proc/meminfo or a node's ("Node 0 MemTotal: …"): values by key, in bytes if the line has
// kB. Lines without a number are skipped, because other kernels have other lines.
func parseMeminfo(s string) map[string]int64 {
	values := map[string]int64{}

	for key, value := range parseFields(s) {
		if rest, isNode := strings.CutPrefix(key, "Node "); isNode {
			if _, name, ok := strings.Cut(rest, " "); ok {
				key = strings.TrimSpace(name)
			}
		}

		number, unit, _ := strings.Cut(value, " ")

		n, err := strconv.ParseInt(number, 10, 53)
		if err != nil || n < 0 {
			continue
		}

		if unit == "kB" {
			n *= 1024
		}

		if _, exists := values[key]; !exists {
			values[key] = n
		}
	}

	return values
}

// binaryQuantity formats a size in KiB as Kubernetes does: 2048 is "2Mi", 1048576 "1Gi", 64 "64Ki".
func binaryQuantity(kib int64) string {
	return resource.NewQuantity(kib*1024, resource.BinarySI).String()
}

// parseNumbered returns N of a name PREFIXN, such as cpu7; false for another name.
func parseNumbered(name, prefix string) (int, bool) {
	rest, hasPrefix := strings.CutPrefix(name, prefix)
	n, isNumber := parseCPU(rest)

	return n, hasPrefix && isNumber
}
