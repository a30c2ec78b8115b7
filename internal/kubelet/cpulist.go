package kubelet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the highest CPU number that is read: Linux' largest NR_CPUS is 8192, and a typo must not ask for
// gigabytes.
const maxCPU = 1<<16 - 1

// CPUSet is a set of CPU numbers, sorted, each once. The zero value is the empty set.
type CPUSet []int

// ParseCPUList reads the kernel's list format as the kubelet does (k8s.io/utils/cpuset): "0-3,8", "" is the
// empty set. One line end at the end, as sysfs has it, is taken off; other space is refused, as are ranges that
// run backwards. The kernel's strides ("0-31:2/4") are refused with that word, the kubelet does not read them.
func ParseCPUList(text string) (CPUSet, error) {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil, nil
	}
	var cpus []int
	for _, part := range strings.Split(text, ",") {
		if strings.Contains(part, ":") {
			return nil, fmt.Errorf("CPU list %q: %q has a stride, which the kubelet does not read: write the CPUs out", text, part)
		}
		lowText, highText, isRange := strings.Cut(part, "-")
		low, err := parseCPU(lowText)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %q: %w", text, part, err)
		}
		high := low
		if isRange {
			if high, err = parseCPU(highText); err != nil {
				return nil, fmt.Errorf("CPU list %q: %q: %w", text, part, err)
			}
		}
		if low > high {
			return nil, fmt.Errorf("CPU list %q: the range %q runs backwards", text, part)
		}
		if len(cpus)+high-low > 2*maxCPU {
			return nil, fmt.Errorf("CPU list of %d bytes: it names CPUs over and over", len(text))
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return NewCPUSet(cpus...), nil
}

func parseCPU(text string) (int, error) {
	if text == "" {
		return 0, fmt.Errorf("a number is missing")
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, fmt.Errorf("%q is no CPU number", text)
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > maxCPU {
		return 0, fmt.Errorf("%q is above %d, the highest CPU number that is read", text, maxCPU)
	}
	return n, nil
}

// NewCPUSet makes a set of CPU numbers in any order.
func NewCPUSet(cpus ...int) CPUSet {
	s := slices.Clone(cpus)
	slices.Sort(s)
	return CPUSet(slices.Compact(s))
}

// String is the canonical list: ascending, neighbours joined, "" for the empty set.
func (s CPUSet) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}

// Contains says whether a CPU is in the set.
func (s CPUSet) Contains(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

// Union returns what is in either.
func (s CPUSet) Union(other CPUSet) CPUSet { return NewCPUSet(slices.Concat(s, other)...) }

// Intersect returns what is in both.
func (s CPUSet) Intersect(other CPUSet) CPUSet { return s.keep(other.Contains) }

// Minus returns what is in s and not in other.
func (s CPUSet) Minus(other CPUSet) CPUSet {
	return s.keep(func(cpu int) bool { return !other.Contains(cpu) })
}

// SubsetOf says whether other has all of s.
func (s CPUSet) SubsetOf(other CPUSet) bool { return len(s.Minus(other)) == 0 }

// Equal says whether both are the same set.
func (s CPUSet) Equal(other CPUSet) bool { return slices.Equal(s, other) }

func (s CPUSet) keep(want func(int) bool) CPUSet {
	var kept CPUSet
	for _, cpu := range s {
		if want(cpu) {
			kept = append(kept, cpu)
		}
	}
	return kept
}
