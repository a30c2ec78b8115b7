package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// extension returns the path of a file of the system extension, which build.sh makes in the disk's folder of the same
// prelet.
func extension(name string) string {
	return filepath.Join(filepath.Dir(os.Getenv(imageVariable)), name)
}

// recipe is the folder of the image's recipe for a machine that has prelet as an extension.
const recipe = "../../../packaging/image/extension"

// TestExtension removes the package from a machine, installs the system extension, and boots from it. Without the
// extension no kubelet starts. With dm-verity a detector is an extension, too, and runs.
func TestExtension(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "EXT-1")
	const name = "ext-1"

	// Without the cluster's address this boot ends before prelet writes anything.
	m.start("-drive", "if=virtio,format=raw,readonly=on,file="+extension("prelet.raw"),
		"-drive", "if=virtio,format=raw,readonly=on,file="+extension("prelet.verity.raw"),
		"-drive", "if=virtio,format=raw,readonly=on,file="+extension("prelet-detector-lldp.verity.raw"))
	m.run("sh", "-ec", `systemctl stop kubelet prelet
		dpkg --purge prelet
		! test -e /usr/bin/prelet
		mkdir -p /var/lib/extensions
		cat /dev/vdb >/var/lib/extensions/prelet.raw
		cat /dev/vdc >/var/lib/verity.raw
		cat /dev/vdd >/var/lib/detector.raw`)
	files, err := exec.Command("tar", "-C", recipe, "--owner=0", "--group=0", "-c", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.agent.run(string(files), "tar", "-C", "/", "-x", "--keep-directory-symlink")
	if err != nil || r.exit != 0 {
		t.Fatalf("unpack %s in the machine: got %v, %s; want exit 0", recipe, err, r)
	}
	m.off()

	m.start(append(credentials(t, c), m.smbiosToken(c.Token)...)...)
	n := node(t, c, m, name)
	s := m.healthy()
	t.Logf("joined from the extension:\n%s\n%s", m.try("systemd-sysext", "status"), m.try("prelet", "status"))
	if s.Generation != 1 {
		t.Errorf("got generation %d; want 1", s.Generation)
	}
	got := m.run("findmnt", "-n", "-o", "FSTYPE", "--target", "/usr/bin/prelet")
	if strings.TrimSpace(got) != "overlay" {
		t.Errorf("file system of /usr/bin/prelet: got %s; want overlay", got)
	}

	m.reboot()
	if s := m.healthy(); s.Generation != 1 {
		t.Errorf("after a reboot: got generation %d; want 1", s.Generation)
	}
	if got := m.property("kubelet", "NRestarts"); got != "0" {
		t.Errorf("after a reboot: the kubelet was restarted %s times; want 0", got)
	}
	if again := node(t, c, m, name); again.UID != n.UID {
		t.Errorf("after a reboot: got Node %s; want %s", again.UID, n.UID)
	}

	m.run("rm", "/var/lib/extensions/prelet.raw")
	m.reboot()
	m.within(2*time.Minute, "the kubelet waits for its gate", func() string {
		if got := m.property("kubelet", "Result"); got != "resources" {
			return "Result=" + got
		}
		return ""
	})
	if got := m.property("kubelet", "MainPID"); got != "0" {
		t.Errorf("without the extension: got a kubelet with pid %s; want none", got)
	}

	certificate, err := os.ReadFile(extension("prelet-verity.crt"))
	if err != nil {
		t.Fatal(err)
	}
	m.put("/etc/verity.d/prelet.crt", string(certificate))
	m.run("mv", "/var/lib/verity.raw", "/var/lib/extensions/prelet.raw")
	m.run("mv", "/var/lib/detector.raw", "/var/lib/extensions/prelet-detector-lldp.raw")
	m.put("/etc/prelet/lldp.hcl", "detector \"lldp\" {}\n")
	m.reboot()
	m.healthy()
	if got := m.run("prelet", "detect"); !strings.Contains(got, "lldp  ok") {
		t.Errorf("prelet detect with the extension of a detector: got %s; want a report of lldp", got)
	}
	m.requireVerity()
}

// requireVerity checks that the kernel verifies the merged extension, and that neither an extension whose signer is not
// known is merged, nor the program of one that was changed runs.
func (m *machine) requireVerity() {
	m.t.Helper()
	if got := m.run("sh", "-c", "cat /sys/block/dm-*/dm/uuid"); strings.Count(got, "CRYPT-VERITY") != 2 {
		m.t.Errorf("devices of the kernel's device mapper: got %s; want two of dm-verity", got)
	}
	m.t.Logf("with dm-verity:\n%s", m.try("sh", "-c", "systemd-sysext status; lsblk -o NAME,TYPE,FSTYPE,MOUNTPOINTS"))

	m.run("systemd-sysext", "unmerge")
	m.run("mv", "/etc/verity.d/prelet.crt", "/root/")
	r := m.try("systemd-sysext", "merge")
	if m.try("sh", "-c", "prelet version").exit == 0 { // systemd-sysext ends with 0
		m.t.Errorf("without the certificate of its signer: got %s; want it not merged", r)
	}
	m.t.Logf("without the certificate: %s", r)

	m.run("mv", "/root/prelet.crt", "/etc/verity.d/")
	m.run("sh", "-ec", `program=$((8 << 20)) # in the middle of the compressed program
		head -c 65536 /dev/zero | dd of=/var/lib/extensions/prelet.raw bs=1 seek=$program conv=notrunc status=none
		sync; echo 3 >/proc/sys/vm/drop_caches`)
	r = m.try("sh", "-c", "systemd-sysext merge && prelet version")
	if r.exit == 0 {
		m.t.Errorf("with a changed block: got %s; want a program that does not run", r)
	}
	m.t.Logf("with a changed block: %s", r)
}
