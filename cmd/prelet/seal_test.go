package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seal runs it on the running machine.
func (m *machine) seal(args ...string) ended {
	m.apply = func() { m.t.Error("prelet-apply.service was started") }
	defer func() { m.apply = nil }()
	return m.as("", append([]string{"seal", "--kubelet-version", "1.36"}, args...)...)
}

// A running node keeps its identity: only a user who names its root, and has stopped the kubelet, may remove it. To
// list what an image must not contain is always possible.
func TestSealRunningNode(t *testing.T) {
	m := template(t)
	if err := os.MkdirAll(filepath.Join(m.root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := m.disk()
	listed := m.seal()
	if listed.exit != 3 || !strings.Contains(listed.out, kubeletConf+" must not be in an image") {
		t.Errorf("seal: got %+v; want exit 3 and %s in the list", listed, kubeletConf)
	}
	m.want("--yes", m.seal("--yes"), ended{64, "", "this machine is the running node n1"})
	m.want("--yes --root /", m.seal("--yes", "--root", "/"), ended{64, "", "systemctl stop kubelet"})
	m.want("--yes of a running root", m.seal("--yes", "--root", m.root),
		ended{64, "", "is running, as node n1, and --yes would remove its identity"})
	if after := m.disk(); len(after) != len(before) || m.node() != "n1" {
		t.Errorf("got %d files and node %q; want %d files and node n1", len(after), m.node(), len(before))
	}
}
