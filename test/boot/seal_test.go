package boot

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/demo"
)

// seal runs the program of a machine that is off on the machine's disk.
func (m *machine) seal(args ...string) ran {
	m.T.Helper()
	args = append([]string{"seal", "--root", m.Root, "--kubelet-version", "1.36", "-o", "json"}, args...)
	c := exec.Command(m.Root+"/usr/bin/prelet", args...)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	var ended *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &ended) {
		m.T.Fatal(err)
	}

	return ran{Exit: c.ProcessState.ExitCode(), Out: stdout.String(), Errors: stderr.String()}
}

// cloned is a machine with a copy of another one's disk, which is off. It is in the network of that machine, and gets
// what a provisioner gives: a host name and a token.
func cloned(t *testing.T, from *machine, name string) *machine {
	t.Helper()
	m := machineOn(t, func(m *machine, cache string) error {
		if err := m.layers(cache); err != nil {
			return err
		}
		return exec.Command("cp", "-aT", from.Root+"/.", m.Root).Run()
	})
	m.cluster = from.cluster
	m.useNetwork(from.Name)
	m.put("/etc/machine-id", "") // as in the image
	m.put("/etc/hostname", name+"\n")
	m.put("/etc/prelet/site.hcl", from.site)
	m.put("/etc/credstore/bootstrap-token", demo.Token+"\n")
	conf := m.cluster.NodeKubeconfig(name)
	m.put("/etc/standin/kubelet.conf", string(conf)) // what the cluster will sign for it

	return m
}

// An image that is made of a joined node and sealed boots as two nodes: each has its own name, id and identity, and its
// own first generation, and none knows of the machine that the image was made of.
func TestSealedImage(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	old := map[string]string{}
	for _, file := range []string{"/etc/machine-id", "/etc/kubernetes/kubelet.conf", "/var/lib/systemd/random-seed"} {
		old[file] = m.read(file)
	}

	before := m.disk()
	if r := m.seal(); r.Exit != 3 {
		t.Fatalf("seal of a used image: got %+v; want exit 3", r)
	}
	if d := cmp.Diff(before, m.disk()); d != "" {
		t.Errorf("seal without --yes wrote (-before +after):\n%s", d)
	}
	r := m.seal("--yes")
	var said struct {
		Sealed    bool
		Statement struct {
			Removed []struct{ Path string }
		}
	}
	if err := json.Unmarshal([]byte(r.Out), &said); err != nil || r.Exit != 0 || !said.Sealed {
		t.Fatalf("seal --yes: got %+v, %v; want exit 0 and sealed", r, err)
	}
	removed := []string{"/etc/kubernetes/kubelet.conf", "/etc/credstore/bootstrap-token", "/var/lib/prelet/lock"}
	for _, file := range removed {
		isRemoved := func(p struct{ Path string }) bool { return p.Path == file }
		if m.Exists(file) || !slices.ContainsFunc(said.Statement.Removed, isRemoved) {
			t.Errorf("%s: got removed %+v; want it removed", file, said.Statement.Removed)
		}
	}
	if m.read("/etc/machine-id") != "" || !m.Exists("/usr/lib/prelet/seal.json") {
		t.Error("the sealed image has a machine id, or no statement")
	}
	if again := m.seal(); again.Exit != 0 {
		t.Errorf("second seal: got %+v; want exit 0", again)
	}

	ids := []string{strings.TrimSpace(old["/etc/machine-id"])}
	for _, name := range []string{"n2", "n3"} {
		c := cloned(t, m, name)
		c.Boot("--hostname=" + name)
		s := c.verdict("good")
		if s.Generation != 1 || len(s.Degraded) != 0 || s.Exit != 0 {
			t.Errorf("%s: got %+v; want generation 1, exit 0, not degraded", name, s)
		}
		id := strings.TrimSpace(c.read("/etc/machine-id"))
		if len(id) != 32 || slices.Contains(ids, id) {
			t.Errorf("%s: got machine id %q; want one other than %q", name, id, ids)
		}
		ids = append(ids, id)
		if conf := c.read("/etc/kubernetes/kubelet.conf"); conf == "" || conf == old["/etc/kubernetes/kubelet.conf"] {
			t.Errorf("%s: it has no kubelet.conf, or that of the machine that the image was made of", name)
		}
		if m.cluster.Node(name) == nil {
			t.Errorf("%s: it has not joined under its name", name)
		}
		if log := c.Journal(); strings.Contains(log, "was on this disk") {
			t.Errorf("%s: prelet found the identity of another machine; want none:\n%s", name, log)
		}
		c.Off()
	}
}
