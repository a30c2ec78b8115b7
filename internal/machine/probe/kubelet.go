package probe

import (
	"context"
	"path"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/hardware"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// KubeletBinary returns the kubelet that this image starts, as it was at the first question about it; nil if there is
// none.
func (l *Live) KubeletBinary() *kubeletbin.Binary {
	return l.findKubelet(context.Background())
}

// findKubelet finds the kubelet's binary, once.
func (l *Live) findKubelet(ctx context.Context) *kubeletbin.Binary {
	l.program.mu.Lock()
	defer l.program.mu.Unlock()

	if l.program.binary == nil {
		found := kubeletbin.Find(l.o.Root, l.cacheFile(), l.StartCommand(ctx))
		l.program.binary = &found
	}

	return *l.program.binary
}

// StartCommand returns the words with which the kubelet's unit starts it, nil if they are not known: of a recorded
// machine, and without a unit. If systemd does not answer, they are those of the unit's files.
func (l *Live) StartCommand(ctx context.Context) []string {
	if l.o.Unit == "" || l.o.Hardware != "" && l.o.Root == "" {
		return nil
	}

	if l.o.Root == "" && l.o.Units != nil {
		u, err := l.o.Units.Look(ctx, l.o.Unit)
		if err == nil {
			return u.Command
		}
	}

	u, err := l.unitFile()
	if err != nil {
		return nil
	}

	return u.Define(kubelet.Argv).Command
}

// isOtherMachine reports whether the answers are about another machine than this process's: a recorded one, or one
// below a root. The state of its kernel is unknown.
func (l *Live) isOtherMachine() bool {
	return l.o.Hardware != "" || l.o.Root != ""
}

// mayStart reports whether the kubelet's binary may be started here.
func (l *Live) mayStart() bool { return l.o.Hardware == "" && kubeletbin.MayStart(l.o.Root) }

// cacheFile returns the file in which apply keeps the output of the kubelet's binary, "" without a store.
func (l *Live) cacheFile() string {
	if l.o.Store == nil {
		return ""
	}

	return path.Join(l.o.StateDir, kubeletbin.CacheFile)
}

// answerAccepts returns the flags in the kubelet's --help.
func (l *Live) answerAccepts(ctx context.Context, _ tape.AcceptsReq) tape.Answer {
	return AnswerAccepts(ctx, l.findKubelet(ctx), l.mayStart())
}

// AnswerAccepts returns the flags in the --help of a kubelet's binary, which may be started.
func AnswerAccepts(ctx context.Context, binary *kubeletbin.Binary, mayStart bool) tape.Answer {
	a, err := binary.Accepts(ctx, mayStart)
	if err != nil {
		return tape.Failure(fault.Absent, err.Error(), "prelet's own tables list the flags of its version")
	}

	return tape.Accepts.Answer(*a)
}

// versionAsked returns the version of the kubelet in the answer about it; "" before that.
func (l *Live) versionAsked() string {
	l.program.mu.Lock()
	defer l.program.mu.Unlock()

	return l.program.version
}

// answerDryRun returns the verdict of the kubelet's binary on a plan.
func (l *Live) answerDryRun(ctx context.Context, r tape.DryRunReq) tape.Answer {
	switch {
	case l.o.DryRun == nil || l.findKubelet(ctx) == nil:
		return tape.Failure(fault.Unread, "the kubelet's binary is not asked", "")
	case r.Kubelet != l.versionAsked():
		return tape.Failure(fault.Unread, "the kubelet's binary has another version", "")
	}

	return l.o.DryRun(ctx, r)
}

// answerConfigDump answers where nothing else does for the container runtime.
func answerConfigDump(context.Context, tape.ConfigDumpReq) tape.Answer {
	return tape.Failure(fault.Unread, "the container runtime is not asked", "")
}

// answerKubelet returns the version of the kubelet, whether its node has joined, and the state of the machine that it
// starts on. It fails if this user may not read the kubelet's identity: "not joined" would plan a bootstrap that is
// not needed.
func (l *Live) answerKubelet(ctx context.Context, _ tape.KubeletReq) tape.Answer {
	k := l.membership()
	if l.identity.denied != nil {
		return tape.Answer{Fault: l.identity.denied}
	}

	switch v, err := l.findKubelet(ctx).Version(ctx, l.mayStart()); {
	case err != nil && l.isOtherMachine(): // it may be of another architecture
	case err != nil:
		k.VersionWhy = err.Error()
	case v != "":
		k.Version = &v
		l.program.mu.Lock()
		l.program.version = v
		l.program.mu.Unlock()
	}

	if !l.isOtherMachine() {
		s := hardware.ReadKernelState("")
		k.Cgroup = s.CgroupVersion
		k.Hierarchies = s.CgroupMounts
		k.Swap = s.Swap
		k.Kernel = s.Sysctls
		k.Disk = l.root().FindDisk("/var/lib/kubelet/pods").Bytes
	}

	k.Runtime = l.findRuntime(ctx)
	k.Resolver = l.chooseResolver(ctx)

	return tape.Kubelet.Answer(k)
}

// Joined reports whether this node has joined its cluster, and the reason.
func (l *Live) Joined() (isJoined bool, why string) {
	k := l.membership()
	return k.Joined, k.JoinedWhy
}

// membership returns whether this node has joined, and its identity. It has joined if kubelet.conf exists and
// parses, its certificate matches its key and is not expired, and no generation shows that it belongs to another
// machine. Only the fields about the identity are set, and l.identity.denied and l.identity.loose. It is read once.
func (l *Live) membership() tape.KubeletAns {
	l.identity.mu.Lock()
	defer l.identity.mu.Unlock()

	if l.identity.joined != nil {
		return *l.identity.joined
	}

	n := joined.Reader{
		Root:     l.root(),
		Now:      l.o.Now,
		Recorded: l.o.Hardware != "",
	}
	id := n.Identity()
	k := tape.KubeletAns{}
	k.Joined, k.JoinedWhy = id.Joined()
	find := func(name string) *tape.DamagedAns {
		d := n.FindDamaged(id, name)
		if d == nil {
			return nil
		}

		return &tape.DamagedAns{Why: d.Why, Files: d.Files, Remove: d.Command()}
	}
	if !k.Joined {
		k.Damaged = find(joined.Client)
	}
	k.DamagedServing, k.DamagedOwn = find(joined.Serving), find(joined.OwnPair)

	if id.Exists {
		v, isOurs := l.compareMachine(n, id)
		k.Identity = &tape.IdentityAns{
			Node:  id.Node,
			Host:  n.HostName(),
			Older: id.Before(n.MachineSince()),
			Files: n.Files(id),
			Ours:  isOurs,
		}
		switch v.Verdict {
		case machineid.AnotherMachine:
			k.Joined = false
			k.JoinedWhy = "it belongs to another machine: " + v.Differing + "; " + machineid.HowToKeep
			k.Identity.Foreign = v.Differing
		case machineid.NotKnown:
			k.Identity.Doubt = v.Differing
		default:
			k.Identity.Changed = v.Differing
		}
		if k.Joined {
			k.Identity.CA = id.CA
		}
		if k.Joined && id.Loose == nil {
			k.Identity.Kubeconfig = id.Text
		}
		if id.Loose != nil {
			k.Identity.Loose = id.Loose.Why
			k.Identity.Fix = id.Loose.Next
		}
	}

	l.identity.joined = &k
	l.identity.denied = id.Denied
	l.identity.loose = id.Loose

	return k
}

// compareMachine compares this machine with the machine that made the current generation, and with it kubelet.conf.
// isOurs reports that nothing shows that it was another machine, or that a person said so before there was one.
//
// On a copied disk, the generations of this machine can be lost while those of the other one are kept. An identity of
// another node than the generation planned, which is newer than the generation and than this machine's id, is of this
// machine.
func (l *Live) compareMachine(n joined.Reader, id joined.Identity) (v machineid.Comparison, isOurs bool) {
	here := machineid.Of(l.o.Root)
	current := l.current()
	if current == nil {
		return v, l.o.Store != nil && machineid.IsAccepted(l.o.Store, here)
	}

	compare := func(isOld bool) machineid.Comparison {
		return machineid.Compare(l.o.Store, current.Gen, here, func() (string, bool) { return id.Node, isOld })
	}
	v = compare(id.Before(n.MachineSince()))
	if v.Verdict == machineid.ThisMachine {
		return v, true
	}

	planned := machineid.PlannedNode(l.o.Store, current.Gen)
	isOtherNode := planned != "" && id.Node != "" && planned != id.Node
	isNewer := !id.Before(current.Time) && !id.Before(n.MachineSince())

	if isOtherNode && isNewer {
		return machineid.Comparison{}, false
	}

	if v.Verdict != machineid.AnotherMachine {
		return v, true
	}

	return compare(true), false // of the identity, whatever the generation is
}
