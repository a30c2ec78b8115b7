package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/probe/kubeletbin"
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
	t.Parallel()
	m := newTemplate(t)
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

// sealable is a machine whose disk has all that an image needs, and a machine id.
func sealable(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	const units = "/usr/lib/systemd/system/"
	for _, unit := range []string{"kubelet.service", "prelet.service", "prelet-verify.service"} {
		m.put(units+unit, "[Service]\n")
	}
	m.put(units+"kubelet.service.d/05-prelet-gate.conf", "[Service]\nEnvironmentFile=/run/prelet/kubelet.env\n")
	m.put("/usr/bin/kubelet", "program\n")
	if err := os.Chmod(filepath.Join(m.root, "usr/bin/kubelet"), 0o755); err != nil {
		t.Fatal(err)
	}

	return m
}

// A second seal changes nothing, also if the version that the kubelet has reported is known.
func TestSealTwice(t *testing.T) {
	t.Parallel()
	m := sealable(t)
	cache, isSame := kubeletbin.Find(m.root, "", nil).Keep("v1.36.3", nil)
	text, err := cache.Marshal()
	if err != nil || !isSame {
		t.Fatalf("the kubelet's cache: got %v, %t; want the same file", err, isSame)
	}
	m.put("/var/lib/prelet/kubelet.json", string(text))

	if first := m.seal("--yes"); first.exit != 0 || !strings.Contains(first.out, "/etc/machine-id: emptied") {
		t.Fatalf("seal: got %+v; want exit 0, and the id emptied", first)
	}
	before := m.disk()
	if again := m.seal("--yes"); again.exit != 0 || !strings.Contains(again.out, "nothing has changed") {
		t.Errorf("second seal: got %+v; want exit 0, and nothing has changed", again)
	}
	if diff := cmp.Diff(before, m.disk()); diff != "" {
		t.Errorf("second seal (-before +after):\n%s", diff)
	}
}

// The identity is removed only if the kubelet is known to be stopped: between two tries of systemd it is not.
func TestSealRunningKubelet(t *testing.T) {
	t.Parallel()
	m := sealable(t)
	before := m.disk()
	m.gone = true
	m.want("without systemd", m.seal("--yes"), ended{52, "", "did not report whether kubelet.service runs"})
	m.gone = false
	for _, state := range []string{"active", "reloading", "activating", "deactivating", "maintenance"} {
		m.kubelet.Active = state
		m.want(state, m.seal("--yes"), ended{64, "", "systemctl stop kubelet"})
	}
	if diff := cmp.Diff(before, m.disk()); diff != "" {
		t.Errorf("refused seals (-before +after):\n%s", diff)
	}

	m.kubelet.Active = "failed"
	if got := m.seal("--yes"); got.exit != 0 {
		t.Errorf("with a failed kubelet: got %+v; want exit 0", got)
	}
}
