package hardware

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// KernelState is what a kubelet checks of the running kernel when it starts. It is not part of Facts, because it can
// change without the machine.
type KernelState struct {
	CgroupVersion int // 1 or 2; 0 if it cannot be found out
	// CgroupMounts are the mount points of cgroup v1 in which a kubelet looks for a group, sorted; nil with another
	// version.
	CgroupMounts []string
	Swap         *bool // whether swap is on; nil if it cannot be found out
	// Sysctls are the values that a kubelet compares with protectKernelDefaults, by their paths below /proc/sys, such as
	// vm/panic_on_oom. One that cannot be read is missing.
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

// cgroupVersion returns the version of the hierarchy that is mounted on a folder, 0 if it cannot be found out.
func cgroupVersion(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
		return 2
	}
	if _, err := os.Stat(filepath.Join(dir, "memory")); err == nil {
		return 1
	}
	return 0
}

// kubeletControllers returns the controllers of cgroup v1 whose hierarchies a kubelet looks into (pkg/kubelet/cm,
// cgroupV1impl.Validate).
func kubeletControllers() []string {
	return []string{"cpu", "cpuacct", "cpuset", "hugetlb", "memory", "name=systemd", "pids"}
}

// readCgroupMounts returns the mount points of cgroup v1 that a kubelet looks into, from a table of mounts as
// /proc/self/mounts has it.
func readCgroupMounts(mounts string) []string {
	text, _ := os.ReadFile(mounts) // without it no mount point is known
	var out []string
	for line := range strings.Lines(string(text)) {
		// device, mount point, type, options, …
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" {
			continue
		}

		isForKubelet := func(option string) bool { return slices.Contains(kubeletControllers(), option) }
		if slices.ContainsFunc(strings.Split(f[3], ","), isForKubelet) {
			out = append(out, f[1])
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// readSwap reports whether swap is on, nil if the file cannot be read. /proc/swaps has one line for each swap device
// below its heading. A device of zram counts, because the kubelet makes no difference.
func readSwap(file string) *bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	on := bytes.Count(bytes.TrimSpace(b), []byte("\n")) > 0
	return &on
}

// readSysctls returns the values of protectKernelDefaults below a folder like /proc/sys (pkg/kubelet/cm,
// setupKernelTunables).
func readSysctls(dir string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}
