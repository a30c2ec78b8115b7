package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// selinuxVariable is the disk that build.sh has made with SELinux in enforcing mode.
const selinuxVariable = "PRELET_SELINUX_IMAGE"

// changeOfSite has what a site has that the image's has not: a detector, a file with a label of its own in place of the
// image's, new files in folders that exist and in one that does not.
const changeOfSite = `
detector "lldp" {
  required = true
  allow { read = ["/run/systemd/netif/lldp"] }
}

stage "write" "files" {
  file "hosts" {
    path    = "/etc/hosts"
    content = "127.0.0.1 localhost changed\n"
  }
  file "drop-in" {
    path    = "/etc/systemd/system/containerd.service.d/50-site.conf"
    content = "[Unit]\n"
    notify  = []
  }
  file "sysctl" {
    path    = "/etc/sysctl.d/50-site.conf"
    content = "net.ipv4.tcp_syncookies = 1\n"
  }
}
`

// TestSELinux takes a node whose SELinux enforces Debian's policy through its first boot, a change with a detector, a
// rollback and a reboot. The kernel denies nothing, and each file has the label that the policy gives its path. At the
// end the same disk boots without SELinux.
func TestSELinux(t *testing.T) {
	disk := os.Getenv(selinuxVariable)
	if disk == "" {
		t.Skip("this boots an image with SELinux: make e2e-selinux")
	}
	t.Setenv(imageVariable, disk)
	c := newCluster(t)
	m := newMachine(t, "SEL-1")
	const name = "sel-1"

	m.start(append(credentials(t, c), m.smbiosToken(c.Token)...)...)
	if got := strings.TrimSpace(m.run("getenforce")); got != "Enforcing" {
		t.Fatalf("SELinux: got %s; want Enforcing", got)
	}
	node(t, c, m, name)
	m.healthy()
	m.requireLabels("the first boot")
	first := m.journal()

	m.run("cp", "-a", "/etc/hosts", "/etc/hosts.image")
	m.put("/etc/prelet/site.hcl", changeOfSite)
	t.Logf("a change:\n%s", m.run("prelet", "run"))
	if s := m.healthy(); s.Generation != 2 {
		t.Errorf("after a change: got %+v; want generation 2", s)
	}
	t.Logf("detectors:\n%s", m.run("prelet", "detectors", "list"))
	m.requireLabels("a change")
	if got := strings.TrimSpace(m.run("stat", "-c", "%C", "/etc/hosts")); !strings.Contains(got, ":net_conf_t:") {
		t.Errorf("label of /etc/hosts after a change: got %s; want net_conf_t, not that of its folder", got)
	}
	t.Logf("a rollback:\n%s", m.run("prelet", "rollback"))
	m.requireLabels("a rollback")
	m.run("cmp", "/etc/hosts", "/etc/hosts.image")
	m.run("prelet", "rollback", "--release")
	m.run("prelet", "run")
	second := m.journal()

	m.reboot()
	node(t, c, m, name)
	m.healthy()
	m.requireLabels("a reboot")
	journals := filepath.Join(filepath.Dir(disk), "journal.txt")
	if err := os.WriteFile(journals, []byte(first+"\n"+second+"\n"+m.journal()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("the journals are in %s", journals)
	m.requireNoDenial(first, second, m.journal())

	// Without SELinux, only CAP_SYS_ADMIN may give a file the label that the one before has.
	m.run("sh", "-ec", `mount /dev/vda1 /mnt
		sed -i s/selinux=1/selinux=0/ /mnt/loader/entries/debian.conf
		umount /mnt`)
	m.reboot()
	m.healthy()
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(changeOfSite, "localhost changed", "localhost again"))
	m.run("prelet", "run")
	if got := m.run("cat", "/etc/hosts"); !strings.Contains(got, "again") {
		t.Errorf("/etc/hosts after a change without SELinux: got %q; want it changed", got)
	}
}

// journal returns that of this boot, in which the kernel's audit messages are.
func (m *machine) journal() string {
	m.t.Helper()

	return m.run("journalctl", "-b", "--no-pager", "-o", "short-monotonic")
}

// ofPolicy are the programs whose denials have other reasons than prelet, and the part of the denials that have: what
// the policy of Debian 12 lacks for its systemd, agetty and the kubelet.
var ofPolicy = [][2]string{
	{`comm="systemd-udevd"`, ""}, {`comm="systemd-tmpfile"`, "{ setrlimit }"}, {`comm="systemd-tmpfile"`, `name="root"`},
	{`comm="systemd-tmpfile"`, `name="mtab"`}, {`comm="systemd-tmpfile"`, `name="resolv.conf"`},
	{`comm="agetty"`, "{ checkpoint_restore }"}, {`comm="kubelet"`, "{ mac_admin }"},
}

// requireNoDenial fails for each other message that SELinux denied, or would have denied, something.
func (m *machine) requireNoDenial(journals ...string) {
	m.t.Helper()
	for line := range strings.Lines(strings.Join(journals, "\n")) {
		isOfPolicy := slices.ContainsFunc(ofPolicy, func(known [2]string) bool {
			return strings.Contains(line, known[0]) && strings.Contains(line, known[1])
		})
		if strings.Contains(line, "avc:  denied ") && !isOfPolicy {
			m.t.Errorf("got a denial of SELinux, want none: %s", strings.TrimSpace(line))
		}
	}
}

// requireLabels compares the labels of all files in /etc but the test's own and the kubelet's, and of prelet's, with
// those of the policy. systemd makes the folders below /run/prelet/detectors, over which it mounts others.
func (m *machine) requireLabels(after string) {
	m.t.Helper()
	got := m.run("sh", "-c", `find /etc /run/prelet /var/lib/prelet /var/lib/kubelet/config.yaml /usr/lib/prelet \
		/usr/bin/prelet | xargs -d '\n' matchpathcon -V |
		grep -v '^/\(run/prelet/detectors\|etc/prelet\|etc/hosts.image\|etc/kubernetes/kubelet.conf\)'`)
	for _, path := range []string{"/run/prelet/kubelet.env", "/var/lib/prelet/generations", "/usr/bin/prelet"} {
		if !strings.Contains(got, path+" verified.") {
			m.t.Errorf("labels after %s: got no %s that is verified, want it", after, path)
		}
	}
	for line := range strings.Lines(got) {
		if !strings.HasSuffix(line, " verified.\n") {
			m.t.Errorf("labels after %s: got %s; want that of the policy", after, strings.TrimSpace(line))
		}
	}
}
