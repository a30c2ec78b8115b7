package hardware

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	cases "github.com/prelet/prelet/internal/testing/table"
)

func TestReadKernelState(t *testing.T) {
	const mounts = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n" +
		"cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n" +
		"cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n" +
		"cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n" +
		"cgroup2 /sys/fs/cgroup/unified cgroup2 rw,memory 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n" +
		"cgroup /short cgroup\n"

	for _, c := range cases.YAML[[]struct {
		Name     string
		Files    []string // PATH=TEXT
		Version  int      // of cgroups
		Mounts   []string
		IsSwapOn string
		Sysctls  string
	}](t, `
- {name: nothing can be read, isSwapOn: <nil>, sysctls: 'map[]'}
- name: cgroup v2
  files: [sys/fs/cgroup/cgroup.controllers=cpu, 'proc/self/mounts={mounts}']
  version: 2
  isSwapOn: <nil>
  sysctls: 'map[]'
- name: cgroup v1
  files: [sys/fs/cgroup/memory/tasks=1, 'proc/self/mounts={mounts}']
  version: 1
  mounts: ['/sys/fs/cgroup/cpu,cpuacct', /sys/fs/cgroup/memory, /sys/fs/cgroup/systemd]
  isSwapOn: <nil>
  sysctls: 'map[]'
- name: cgroup v1 without a table of mounts
  files: [sys/fs/cgroup/memory/tasks=1]
  version: 1
  isSwapOn: <nil>
  sysctls: 'map[]'
- {name: swap is off, files: ['proc/swaps={swaps}'], isSwapOn: 'false', sysctls: 'map[]'}
- name: swap is on
  files: ["proc/swaps={swaps}/dev/sda2\tpartition\t1\t0\t-2\n"]
  isSwapOn: 'true'
  sysctls: 'map[]'
- name: sysctls
  files:
    - "proc/sys/vm/overcommit_memory=1\n"
    - "proc/sys/vm/panic_on_oom=not a number\n"
    - "proc/sys/kernel/panic=-1\n"
    - proc/sys/kernel/panic_on_oops=1
    - "proc/sys/kernel/keys/root_maxkeys=1000000\n"
    - "proc/sys/kernel/keys/root_maxbytes=25000000\n"
    - "proc/sys/kernel/threads-max=5\n"
  isSwapOn: <nil>
  sysctls: 'map[kernel/keys/root_maxbytes:25000000 kernel/keys/root_maxkeys:1000000 kernel/panic:-1 kernel/panic_on_oops:1 vm/overcommit_memory:1]'
`, "mounts", mounts, "swaps", "Filename\tType\tSize\tUsed\tPriority\n") {
		s := ReadKernelState(writeFiles(t, c.Files))
		got := []any{s.CgroupVersion, s.CgroupMounts, fmt.Sprint(value(s.Swap)), fmt.Sprint(s.Sysctls)}
		if diff := cmp.Diff([]any{c.Version, c.Mounts, c.IsSwapOn, c.Sysctls}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
		}
	}
}
