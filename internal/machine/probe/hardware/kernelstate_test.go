package hardware

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadKernelState(t *testing.T) {
	on, off := true, false
	const swaps = "Filename\tType\tSize\tUsed\tPriority\n"
	const mounts = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n" +
		"cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n" +
		"cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n" +
		"cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n" +
		"cgroup2 /sys/fs/cgroup/unified cgroup2 rw,memory 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n" +
		"cgroup /short cgroup\n"

	for name, c := range map[string]struct {
		files map[string]string
		want  KernelState
	}{
		"nothing can be read": {nil, KernelState{Sysctls: map[string]int64{}}},
		"cgroup v2": {
			map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu\n", "proc/self/mounts": mounts},
			KernelState{CgroupVersion: 2, Sysctls: map[string]int64{}},
		},
		"cgroup v1": {
			map[string]string{"sys/fs/cgroup/memory/tasks": "1\n", "proc/self/mounts": mounts},
			KernelState{
				CgroupVersion: 1,
				CgroupMounts:  []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd"},
				Sysctls:       map[string]int64{},
			},
		},
		"cgroup v1 without a table of mounts": {
			map[string]string{"sys/fs/cgroup/memory/tasks": "1\n"},
			KernelState{CgroupVersion: 1, Sysctls: map[string]int64{}},
		},
		"swap is off": {
			map[string]string{"proc/swaps": swaps},
			KernelState{Swap: &off, Sysctls: map[string]int64{}},
		},
		"swap is on": {
			map[string]string{"proc/swaps": swaps + "/dev/sda2\tpartition\t1\t0\t-2\n"},
			KernelState{Swap: &on, Sysctls: map[string]int64{}},
		},
		"sysctls": {
			map[string]string{
				"proc/sys/vm/overcommit_memory":      "1\n",
				"proc/sys/vm/panic_on_oom":           "not a number\n",
				"proc/sys/kernel/panic":              "-1\n",
				"proc/sys/kernel/panic_on_oops":      "1",
				"proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
				"proc/sys/kernel/keys/root_maxbytes": "25000000\n",
				"proc/sys/kernel/threads-max":        "5\n",
			},
			KernelState{Sysctls: map[string]int64{
				"vm/overcommit_memory": 1, "kernel/panic": -1, "kernel/panic_on_oops": 1,
				"kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000,
			}},
		},
	} {
		if diff := cmp.Diff(c.want, ReadKernelState(writeTree(t, c.files))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
