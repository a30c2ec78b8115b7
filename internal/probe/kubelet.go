package live

import (
	"context"
	"path"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/probe/hardware"
	"github.com/prelet/prelet/internal/probe/joined"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/world"
)

// KubeletBinary returns the kubelet of this image as it was at the first question about it, nil if there is none.
func (l *Live) KubeletBinary() *program.Binary { return l.found() }

// isOtherMachine reports whether the node is another machine than the one that runs us: a recorded one, or one below a
// root. Its programs must not be started here, and nothing is known of its kernel.
func (l *Live) isOtherMachine() bool { return l.o.Hardware != "" || l.o.Root != "" }

// cacheFile returns the file in which apply keeps what the kubelet's binary printed, "" if there is no store.
func (l *Live) cacheFile() string {
	if l.o.Store == nil {
		return ""
	}
	return path.Join(l.o.StateDir, "kubelet.json")
}

// answerAccepts returns what --help of the kubelet lists.
func (l *Live) answerAccepts(ctx context.Context) world.Answer {
	a, err := l.found().Accepts(ctx, !l.isOtherMachine())
	if err != nil {
		return world.Failure(fault.Absent, err.Error(), "prelet's own tables tell what its version takes")
	}
	return world.Accepts.Answer(*a)
}

// answerKubelet returns the version of the kubelet, whether its node has joined, and what it would find when it starts.
// It fails where this user may not read the kubelet's identity: "not joined" would plan a bootstrap that is not needed.
func (l *Live) answerKubelet(ctx context.Context) world.Answer {
	k := l.membership()
	if l.denied != nil {
		return world.Answer{Fault: l.denied}
	}

	if v := l.found().Version(ctx, !l.isOtherMachine()); v != "" {
		k.Version = &v
	}
	if !l.isOtherMachine() {
		s := hardware.ReadKernelState("")
		k.Cgroup, k.Hierarchies, k.Swap, k.Kernel = s.CgroupVersion, s.CgroupMounts, s.Swap, s.Sysctls
		k.Disk = l.root().DiskSize("/var/lib/kubelet")
	}
	k.Runtime = l.findRuntime(ctx)
	k.Resolver = l.chooseResolver(ctx)

	return world.Kubelet.Answer(k)
}

// Joined reports whether this node has joined its cluster, and what speaks for or against it.
func (l *Live) Joined() (isJoined bool, why string) {
	k := l.membership()
	return k.Joined, k.JoinedWhy
}

// membership returns whether this node has joined, and as whom: kubelet.conf exists and parses, its certificate fits
// its key and is not expired, and no generation shows that it belongs to another machine. It is read once. Only the
// fields about the identity are set. Afterwards l.denied and l.loose are set.
func (l *Live) membership() world.KubeletAns {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined != nil {
		return *l.joined
	}

	n := joined.Node{Root: l.root(), Now: l.o.Now, Recorded: l.o.Hardware != ""}
	id := n.Identity()
	k := world.KubeletAns{}
	k.Joined, k.JoinedWhy = id.Joined()
	if id.There {
		foreign, ours := l.foreign(n, id)
		if foreign != "" {
			k.Joined, k.JoinedWhy = false, "it belongs to another machine: "+foreign
		}
		k.Identity = &world.IdentityAns{
			Node: id.Node, Host: n.HostName(), Older: id.Before(n.MachineSince()), Files: n.Files(id),
			Foreign: foreign, Ours: ours,
		}
		if id.Loose != nil {
			k.Identity.Loose, k.Identity.Mend = id.Loose.Why, id.Loose.Next
		}
	}

	l.joined, l.denied, l.loose = &k, id.Denied, id.Loose
	return k
}

// foreign returns why the generation in place, and with it kubelet.conf, was made on another machine, "" if nothing
// shows that; ours reports that there is a generation and that nothing shows it. A machine id or product uuid that is
// unknown on one of the two sides shows nothing.
//
// On a disk that was copied, the generations of this machine can be lost while those of the other one stay. An identity
// of another node than that one planned, which is newer than it and than this machine's id, came with what is lost.
func (l *Live) foreign(n joined.Node, id joined.Identity) (why string, ours bool) {
	if l.o.Store == nil {
		return "", false
	}

	cur, err := l.o.Store.Current()
	if err != nil || cur == nil {
		return "", false
	}
	why = machineid.Foreign(l.o.Store, cur.Gen, machineid.Of(l.o.Root))
	if why == "" {
		return "", true
	}

	planned := machineid.PlannedNode(l.o.Store, cur.Gen)
	isOther := planned != "" && id.Node != "" && planned != id.Node
	if isOther && !id.Before(cur.Time) && !id.Before(n.MachineSince()) {
		return "", false
	}

	return why, false
}
