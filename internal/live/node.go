package live

import (
	"context"

	"github.com/prelet/prelet/internal/world"
)

func (l *Live) kubelet(ctx context.Context) world.Answer {
	k := l.node()
	if l.denied != nil { // "not joined" would plan a bootstrap that nobody needs
		return world.Answer{Fault: l.denied}
	}
	if v := l.version(ctx); v != "" {
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
