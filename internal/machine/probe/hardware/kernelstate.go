package hardware

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// KernelState is the state of the running kernel that a kubelet checks when it starts. It is not part of Facts,
// because it can change while the hardware does not.
type KernelState struct {
	CgroupVersion int // 1 or 2; 0 if it is unknown
	// CgroupMounts are the mount points of cgroup v1 that a kubelet checks, sorted; nil with another version.
	CgroupMounts []string
	Swap         *bool // whether swap is on; nil if it is unknown
	// Sysctls are the values that a kubelet compares with protectKernelDefaults, by their paths below /proc/sys,
	// such as vm/panic_on_oom. A value that cannot be read is omitted.
	Sysctls map[string]int64
}

// ReadKernelState reads the state of the running kernel from /sys/fs/cgroup and /proc below root; "" is /. It follows
// links, so root must not be a recorded tree.
func ReadKernelState(root string) KernelState {
	path := func(p string) string { return filepath.Join("/", root, p) }
	s := KernelState{
		CgroupVersion: cgroupVersion(path("sys/fs/cgroup")),
		Swap:          readSwap(path("proc/swaps")),
		Sysctls:       readSysctls(path("proc/sys")),
	}
	if s.CgroupVersion == 1 {
		s.CgroupMounts = readCgroupMounts(path("proc/self/mounts"))
	}
	return s
}

// cgroupVersion returns the version of the hierarchy that is mounted on a folder, 0 if it is unknown.
func cgroupVersion(dir string) int {
	controllers := filepath.Join(dir, "cgroup.controllers")
	if _, err := os.Stat(controllers); err == nil {
		return 2
	}

	memory := filepath.Join(dir, "memory")
	if _, err := os.Stat(memory); err == nil {
		return 1
	}

	return 0
}

// kubeletControllers are the controllers of cgroup v1 that a kubelet checks (pkg/kubelet/cm,
// cgroupV1impl.Validate).
var kubeletControllers = []string{
	"cpu",
	"cpuacct",
	"cpuset",
	"hugetlb",
	"memory",
	"name=systemd",
	"pids",
}

// readCgroupMounts returns the mount points of cgroup v1 that a kubelet checks, from a table of mounts such as
// /proc/self/mounts.
func readCgroupMounts(mounts string) []string {
	text, _ := os.ReadFile(mounts) // without it no mount point is known
	var out []string
	for line := range strings.Lines(string(text)) {
		// device, mount point, type, options, …
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" {
			continue
		}

		isForKubelet := func(option string) bool {
			return slices.Contains(kubeletControllers, option)
		}
		if slices.ContainsFunc(strings.Split(f[3], ","), isForKubelet) {
			out = append(out, f[1])
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// readSwap reports whether swap is on, nil if the file cannot be read. /proc/swaps has one line for each swap device
// below its heading. zram counts as swap, as for the kubelet.
func readSwap(file string) *bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}

	isOn := bytes.Contains(bytes.TrimSpace(b), []byte("\n"))

	return &isOn
}

// readSysctls returns the values of protectKernelDefaults below a folder like /proc/sys (pkg/kubelet/cm,
// setupKernelTunables).
func readSysctls(dir string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		text := string(bytes.TrimSpace(b))

		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}
