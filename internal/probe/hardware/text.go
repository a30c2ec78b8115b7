package hardware

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
)

// maxCPU bounds a CPU list: Linux is built for at most 8192, and a list that says more is not one.
const maxCPU = 1 << 16

// parseCPUList parses the kernel's list format, "0-3,8,10-11", into sorted numbers, each once. An empty list is valid.
// Source: Documentation/admin-guide/kernel-parameters.rst, "cpu lists".
func parseCPUList(s string) ([]int, error) {
	set, err := kubelet.ParseCPUList(strings.TrimSpace(s))
	return set.List(), err
}

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n >= maxCPU {
		return 0, fmt.Errorf("%q is no CPU number", s)
	}
	return int(n), nil
}

// fields yields key and value of lines "key : value", the format of cpuinfo, meminfo and their kin. Lines without a colon
// are passed over.
func fields(s string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(s) {
			key, value, ok := strings.Cut(line, ":")
			if ok && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// parseMeminfo reads /proc/meminfo or a node's ("Node 0 MemTotal: …"): values by key, in bytes where the line has kB.
// A line that is no number is passed over: other kernels add other lines.
func parseMeminfo(s string) map[string]int64 {
	values := map[string]int64{}
	for key, value := range fields(s) {
		if rest, ok := strings.CutPrefix(key, "Node "); ok {
			if _, after, ok := strings.Cut(rest, " "); ok {
				key = strings.TrimSpace(after)
			}
		}
		number, unit, _ := strings.Cut(value, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 {
			continue
		}
		if unit == "kB" {
			if n > 1<<52 {
				continue
			}
			n *= 1024
		}
		if _, twice := values[key]; !twice {
			values[key] = n
		}
	}
	return values
}

// binaryQuantity writes a size in KiB as Kubernetes does: 2048 is "2Mi", 1048576 "1Gi", 64 "64Ki".
func binaryQuantity(kib int64) string {
	units := []string{"Ki", "Mi", "Gi", "Ti"}
	i := 0
	for kib >= 1024 && kib%1024 == 0 && i < len(units)-1 {
		kib /= 1024
		i++
	}
	return strconv.FormatInt(kib, 10) + units[i]
}

// trailingNumber is N of "cpuN", "nodeN": what follows prefix, if it is all digits.
func trailingNumber(name, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	n, err := parseCPU(rest)
	return n, err == nil
}
