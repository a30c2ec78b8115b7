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
	m.Off()
	const other = "n2"
	conf := m.cluster.NodeKubeconfig(other)
	m.put("/etc/standin/kubelet.conf", string(conf)) // what the cluster will sign for it
	m.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	m.put("/etc/hostname", other+"\n")
	m.Boot("--hostname=" + other)
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
	if log := m.Journal(); !strings.Contains(log, "the identity of node n1 was on this disk") {
		t.Errorf(
			"the journal does not contain that this is a copy; want text with \"the identity of node n1 was on "+
				"this disk\":\n%s",
			log,
		)
	}
	m.Off()
	before := m.disk()
	m.Boot("--hostname=" + other)
	m.well(2)
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("the boot after it wrote: got %q; want none", d)
	}
}

// The machine id of a joined node is lost: made again by systemd, as after a script for golden images ran on it, or for
// one boot only, as with a read-only /etc. It is still that node.
func TestMachineIDLost(t *testing.T) {
	t.Parallel()
	m := joined(t)
	id := m.read("/etc/machine-id")
	m.Off()
	m.put("/etc/machine-id", "")
	m.put("/empty-id", "")
	for _, c := range []struct {
		name  string
		extra []string
		note  bool
	}{
		{"made for one boot", []string{"--bind-ro=" + m.Root + "/empty-id:/etc/machine-id"}, false},
		{"made again", nil, true},
		{"as before", nil, false},
	} {
		m.Boot(c.extra...)
		m.Try("systemctl", "reset-failed", "systemd-machine-id-commit.service") // it cannot write the file
		m.running()
		s := m.status()
		if s.Generation != 1 || !s.Gate.Open || s.Code != 0 || (len(s.Notes) > 0) != c.note {
			t.Errorf("%s: got status %+v; want generation 1, an open gate, and a note: %t", c.name, s, c.note)
		}
		if got := m.Do("cat", "/etc/machine-id"); got == id || len(got) != 33 {
			t.Errorf("%s: the machine id is %q; want another one than %q", c.name, got, id)
		}
		m.Off()
	}
}
