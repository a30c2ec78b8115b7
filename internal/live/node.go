package live

import (
	"context"
	"path"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/program"
	"github.com/prelet/prelet/internal/world"
)

// KubeletBinary is the kubelet on this image, as it was when it was asked for first; nil: there is none.
func (l *Live) KubeletBinary() *program.Binary { return l.found() }

// elsewhere says whether the binary must not be started here: it is below another root, or a recorded machine is looked
// at. Then only what is kept tells.
func (l *Live) elsewhere() bool { return l.o.Hardware != "" || l.o.Root != "" }

// cacheFile is where apply keeps what the binary said.
func (l *Live) cacheFile() string {
	if l.o.Store == nil {
		return ""
	}
	return path.Join(l.o.StateDir, "kubelet.json")
}

// accepts is what the binary's --help lists.
func (l *Live) accepts(ctx context.Context) world.Answer {
	a, err := l.found().Accepts(ctx, !l.elsewhere())
	if err != nil {
		return world.Failure(fault.Absent, err.Error(), "prelet's own tables tell what its version takes")
	}
	return world.Accepts.Answer(*a)
}

func (l *Live) kubelet(ctx context.Context) world.Answer {
	k := l.node()
	if l.denied != nil { // "not joined" would plan a bootstrap that nobody needs
		return world.Answer{Fault: l.denied}
	}
	if v := l.found().Version(ctx, !l.elsewhere()); v != "" {
		k.Version = &v
	}
	if l.o.Root == "" && l.o.Hardware == "" {
		k.Cgroup, k.Swap, k.Kernel = cgroupVersion("/sys/fs/cgroup"), swapOn("/proc/swaps"), sysctls("/proc/sys")
		k.Disk = diskBytes("/var/lib/kubelet")
		if k.Cgroup == 1 {
			k.Hierarchies = hierarchies("/proc/self/mounts")
		}
	}
	k.Runtime = l.runtime(ctx)
	return world.Kubelet.Answer(k)
}
