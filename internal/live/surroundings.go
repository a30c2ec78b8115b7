package live

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/world"
)

// cgroupVersion is that of the hierarchy at a folder; 0 where nobody can tell.
func cgroupVersion(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
		return 2
	}
	if _, err := os.Stat(filepath.Join(dir, "memory")); err == nil {
		return 1
	}
	return 0
}

// hierarchies are the folders of cgroup v1, of a table of mounts, in which a kubelet looks for a group (pkg/kubelet/cm,
// cgroupV1impl.Validate).
func hierarchies(mounts string) (out []string) {
	b, _ := os.ReadFile(mounts)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[2] == "cgroup" && slices.ContainsFunc(strings.Split(f[3], ","), func(o string) bool {
			return slices.Contains([]string{"cpu", "cpuacct", "cpuset", "hugetlb", "memory", "name=systemd", "pids"}, o)
		}) {
			out = append(out, f[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// swapOn says whether swap is on: a line for each device below the headline of /proc/swaps. The kubelet does not count
// zram's as something else.
func swapOn(file string) *bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	on := bytes.Count(bytes.TrimSpace(b), []byte("\n")) > 0
	return &on
}

// diskBytes is the size of the filesystem that a folder is on, or will be; 0 where nobody can tell.
func diskBytes(dir string) int64 {
	var s syscall.Statfs_t
	for err := syscall.Statfs(dir, &s); err != nil; err = syscall.Statfs(dir, &s) {
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return 0
		}
		dir = filepath.Dir(dir)
	}
	return int64(s.Blocks) * int64(s.Bsize)
}

// sysctls are the values that the kubelet minds with protectKernelDefaults, those that can be read.
func sysctls(dir string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if n, bad := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && bad == nil {
			out[name] = n
		}
	}
	return out
}

// exists answers for what the kubelet will look at on this machine. Below another root nobody can tell what will be there
// when it boots.
func (l *Live) exists(p string) world.Answer {
	if l.o.Root != "" || l.o.Hardware != "" {
		return world.Failure(fault.Absent, "what will be at "+p+" is not known below another root", "")
	}
	_, err := os.Stat(p)
	if err != nil {
		if f := nodefile.Failure(p, err); f.Code != fault.Absent {
			return world.Answer{Fault: f}
		}
	}
	return world.Exists.Answer(world.ExistsAns{Exists: err == nil})
}
