package boot

import (
	"os"
	"path/filepath"
	"testing"
)

// The deb on a node that runs: installing, installing again and removing it neither restart the kubelet nor shut its
// gate, and write nothing that a boot would not. After the removal the kubelet starts again without the gate, and no target
// fails for lack of the check of the image.
func TestPackageOnRunningNode(t *testing.T) {
	t.Parallel()
	debs, _ := filepath.Glob("../../bin/boot/prelet_*.deb")
	if len(debs) != 1 {
		t.Fatalf("packages in bin/boot: got %q, want one deb. Try: make e2e-boot", debs)
	}
	deb, err := os.ReadFile(debs[0])
	if err != nil {
		t.Fatal(err)
	}

	m := joined(t)
	m.put("/root/prelet.deb", string(deb))
	pid := m.property("kubelet", "MainPID")
	gate := m.read("/run/prelet/kubelet.env")
	site := m.read("/etc/prelet/site.hcl")

	for _, args := range [][]string{
		{"dpkg", "--install", "/root/prelet.deb"},
		{"dpkg", "--install", "/root/prelet.deb"},
		{"dpkg", "--remove", "prelet"},
		{"dpkg", "--install", "/root/prelet.deb"},
	} {
		m.Do(args...)
		if got := m.property("kubelet", "MainPID"); got != pid {
			t.Errorf("pid of the kubelet after %q: got %s, want %s", args, got, pid)
		}
		if got := m.read("/run/prelet/kubelet.env"); got != gate {
			t.Errorf("gate after %q: got %q, want %q", args, got, gate)
		}
		if got := m.read("/etc/prelet/site.hcl"); got != site {
			t.Errorf("site after %q: got %q, want %q", args, got, site)
		}
	}

	m.well(1)
	m.Do("prelet", "run")
	m.well(1)
	m.Off()
	m.Boot()
	m.well(1)

	m.Do("systemctl", "enable", checkUnit)
	m.Do("dpkg", "--remove", "prelet")
	m.Do("systemctl", "restart", "kubelet")
	m.running()
	m.Do("systemctl", "daemon-reload")
	m.Do("systemctl", "start", "boot-complete.target") // what enabled the check fails no target
}
