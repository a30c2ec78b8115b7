package boot

import (
	"strings"
	"testing"
)

// A disk that was copied from a joined node boots as another machine: it is not that node. The files of the previous
// identity are removed, it joins under its own name, and its first boot reports this.
func TestClone(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	const other = "n2"
	conf, err := m.cluster.NodeKubeconfig(other)
	if err != nil {
		t.Fatal(err)
	}
	m.put("/etc/standin/kubelet.conf", string(conf)) // what the cluster will sign for it
	m.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	m.put("/etc/hostname", other+"\n")
	m.boot("--hostname=" + other)
	s := m.verdict("good")
	if s.Generation != 2 || !s.Gate.Open || s.Exit != 0 {
		t.Errorf("status: got %+v; want Generation 2, Gate.Open and Exit 0", s)
	}
	m.running()
	if m.read("/etc/kubernetes/kubelet.conf") != string(conf) {
		t.Error("it has not joined as itself")
	}
	if m.cluster.Node(other) == nil || m.cluster.Node(nodeName) == nil {
		t.Error("the cluster does not know both nodes")
	}
	starts := m.starts()
	if last := starts[len(starts)-1]; len(starts) != 2 || last.Joined {
		t.Errorf("the kubelet started as a node that has joined: got %+v; want 2 starts and not Joined", starts)
	}
	if log := m.journal(); !strings.Contains(log, "the identity of node n1 was on this disk") {
		t.Errorf(
			"the journal does not contain that this is a copy; want text with \"the identity of node n1 was on "+
				"this disk\":\n%s",
			log,
		)
	}
	m.off()
	before := m.disk()
	m.boot("--hostname=" + other)
	m.well(2)
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("the boot after it wrote: got %q; want none", d)
	}
}
