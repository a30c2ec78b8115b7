package live

import (
	"github.com/prelet/prelet/internal/joined"
	"github.com/prelet/prelet/internal/machineid"
	"github.com/prelet/prelet/internal/world"
)

// node says whether this machine has joined: kubelet.conf is there, parses, its certificate fits its key and is not
// expired, and nothing says that it belongs to another machine. It is looked at once.
func (l *Live) node() world.KubeletAns {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined == nil {
		n := l.kubeletNode()
		h := n.Identity()
		l.denied = h.Denied
		k := l.answer(n, h)
		l.joined = &k
	}
	return *l.joined
}

// answer judges the identity that was found in kubelet.conf.
func (l *Live) answer(n joined.Node, h joined.Identity) world.KubeletAns {
	k := world.KubeletAns{}
	k.Joined, k.JoinedWhy = h.Joined()
	if !h.There {
		return k
	}
	why, ours := l.foreign()
	if why != "" {
		k.Joined, k.JoinedWhy = false, "it belongs to another machine: "+why
	}
	k.Identity = &world.IdentityAns{
		Node: h.Node, Host: n.HostName(), Older: h.Before(n.MachineSince()), Files: n.Files(h), Foreign: why, Ours: ours,
	}
	return k
}

// kubeletNode is the node's kubelet.conf, and what belongs to it.
func (l *Live) kubeletNode() joined.Node {
	return joined.Node{Root: l.root(), Now: l.o.Now, Recorded: l.o.Hardware != ""}
}

// foreign says why the generation in place, and with it kubelet.conf, was made on another machine, or that it is ours
// because nothing says so. A machine id or a product uuid that is not known on one of the two sides says nothing.
func (l *Live) foreign() (why string, ours bool) {
	if l.o.Store == nil {
		return "", false
	}
	cur, err := l.o.Store.Current()
	if err != nil || cur == nil {
		return "", false
	}
	why = machineid.Foreign(l.o.Store, cur.Gen, machineid.Of(l.o.Root))
	return why, why == ""
}

// Joined says whether this machine belongs to the cluster already, and why (not).
func (l *Live) Joined() (bool, string) {
	k := l.node()
	return k.Joined, k.JoinedWhy
}
