package kubelet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Limits of a CPU list. cpuset.Parse allocates every CPU that a list names, so a typo like "0-4294967295" would exhaust
// the memory. Linux' largest NR_CPUS is 8192.
const (
	cpuNumberBits = 16
	maxListedCPUs = 2 << cpuNumberBits
)

// ParseCPUSet parses a list of CPUs as the kubelet does: "0-3,8"; "" is the empty set and "+0" is 0. It rejects spaces,
// newlines, descending ranges and the kernel's strides ("0-31:2/4").
func ParseCPUSet(text string) (cpuset.CPUSet, error) {
	if text == "" {
		return cpuset.New(), nil
	}

	listed := uint64(0)

	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}

		// The kubelet uses strconv.Atoi, which accepts a plus sign.
		first, lowErr := strconv.ParseUint(strings.TrimPrefix(low, "+"), 10, cpuNumberBits)
		last, highErr := strconv.ParseUint(strings.TrimPrefix(high, "+"), 10, cpuNumberBits)

		switch err := cmp.Or(lowErr, highErr); {
		case err != nil:
			return cpuset.New(), fmt.Errorf(
				"invalid CPU list %q: %q is neither a CPU number from 0 to %d nor a range like 0-3",
				text,
				part,
				1<<cpuNumberBits-1,
			)
		case last < first:
			return cpuset.New(), fmt.Errorf("invalid CPU list %q: the range %q is descending", text, part)
		}

		if listed += last - first + 1; listed >= maxListedCPUs {
			return cpuset.New(), fmt.Errorf("invalid CPU list of %d bytes: it repeats CPUs", len(text))
		}
	}

	return cpuset.Parse(text)
}
