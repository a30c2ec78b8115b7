package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	checkUnit   = "prelet-boot-check.service"
	checkLink   = "/etc/systemd/system/boot-complete.target.wants/" + checkUnit
	scriptsUnit = "greenboot-healthcheck.service"
	greenboot   = "50-prelet.sh"
)

// countsBoots enables the check of the image on the disk, and a unit that marks a complete boot as good, as
// systemd-bless-boot or bootc does. Another unit runs the script for greenboot as greenboot does; it marks nothing.
func (m *machine) countsBoots() {
	m.T.Helper()
	m.put("/etc/systemd/system/bless.service", `[Unit]
Requires=boot-complete.target
After=boot-complete.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
`)
	m.put("/etc/systemd/system/"+scriptsUnit, `[Unit]
Before=boot-complete.target

[Service]
Type=oneshot
RemainAfterExit=yes
# The id of this boot: in a container, that of /proc is the host's.
Environment=PRELET_BOOT_ID=%b
ExecStart=/bin/sh -ec 'for check in /etc/greenboot/check/required.d/*.sh; do "$check"; done'
`)
	for link, unit := range map[string]string{
		"boot-complete.target.wants/" + scriptsUnit: "/etc/systemd/system/" + scriptsUnit,
		"multi-user.target.wants/bless.service":     "/etc/systemd/system/bless.service",
	} {
		m.link(unit, "/etc/systemd/system/"+link)
	}
	m.chroot("systemctl", "enable", checkUnit)
	m.link("/usr/share/prelet/greenboot/"+greenboot, "/etc/greenboot/check/required.d/"+greenboot)
}

// link makes a symbolic link on the disk, and its folder.
func (m *machine) link(target, path string) {
	m.T.Helper()
	path = m.Root + path
	must(m.T, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)))
}

// imageCheck returns whether the image works or fails: whether the boot counts as good. Before its checks have ended,
// and with them all jobs, it returns what still runs.
func (m *machine) imageCheck() string {
	m.T.Helper()
	for _, unit := range []string{checkUnit, scriptsUnit} {
		if state := m.property(unit, "ActiveState"); state != "active" && state != "failed" {
			return unit + " is " + state
		}
	}
	state := strings.TrimSpace(m.Try("systemctl", "is-system-running").Out)
	if slices.Contains([]string{"", "offline", "initializing", "starting"}, state) {
		return "the machine is " + state
	}
	scripts, blessed := m.property(scriptsUnit, "ActiveState"), m.property("bless.service", "ActiveState")
	switch {
	case scripts == "active" && blessed == "active":
		return "works"
	case scripts != "active" && blessed != "active":
		return "fails"
	}

	return fmt.Sprintf("%s is %s, bless.service is %s", scriptsUnit, scripts, blessed)
}

// TestCheckGone removes prelet from a machine that checks its image, in each way in which it can go, and boots that
// machine: the link of `systemctl enable`, if it stays, fails no target.
func TestCheckGone(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		before func(m *machine) // what is installed otherwise than by the package
		remove func(m *machine)
		stays  bool // the link
		gated  bool // the image itself has the gate, so that no kubelet starts without prelet
	}{
		{name: "remove", remove: func(m *machine) { m.Do("dpkg", "--remove", "prelet") }, stays: true},
		{name: "purge", remove: func(m *machine) { m.Do("dpkg", "--purge", "prelet") }},
		{name: "downgrade", remove: func(m *machine) { m.Do("sh", "-ec", downgrade) }, stays: true},
		{name: "archive", remove: func(m *machine) { m.Do("bash", "-ec", undo(t)) }, stays: true},
		{
			name:   "extension",
			before: (*machine).makesExtension,
			remove: func(m *machine) {
				m.Off() // what is merged must not change
				m.chroot("rm", "-r", "/var/lib/extensions/prelet")
			},
			stays: true,
			gated: true,
		},
	} {
		t.Run(way.name, func(t *testing.T) {
			m := newMachine(t)
			if way.name == "extension" && !m.hasSystemd(252) {
				t.Skip("an extension with ID=_any needs systemd 252")
			}
			m.putPackage()
			m.dpkg("/root/prelet.deb") // over the files of `make install`
			m.countsBoots()
			if way.before != nil {
				way.before(m)
			}
			m.Start()
			m.Within(90*time.Second, "the check of the image", func() string {
				said := strings.Join(m.said("--unit="+checkUnit), "\n")
				if got := m.imageCheck(); got != "works" || !strings.Contains(said, "The image works:") {
					return fmt.Sprintf("the image %s: %s", got, said)
				}
				return ""
			})

			way.remove(m)
			m.Off()
			m.Boot()
			if state := m.property("boot-complete.target", "ActiveState"); state != "active" {
				t.Errorf("boot-complete.target: got %s, want active", state)
			}
			if state := m.property(checkUnit, "LoadState"); state != "not-found" {
				t.Errorf("%s: got %s, want not-found", checkUnit, state)
			}
			if got := m.Exists(checkLink); got != way.stays {
				t.Errorf("%s: got it there: %t, want %t", checkLink, got, way.stays)
			}
			if !way.gated {
				m.running(scriptsUnit) // greenboot's script is that of the package
			} else if state := m.property("prelet-extension.service", "ActiveState"); state != "inactive" {
				t.Errorf("prelet-extension.service: got %s, want inactive", state)
			}
		})
	}
}

// downgrade installs the package without what it has for the check of the image, as 0.1.0 has nothing for it.
const downgrade = `cd /root
dpkg-deb --raw-extract prelet.deb old
rm -r old/usr/lib/systemd/system/prelet-boot-check.service old/usr/lib/systemd/system/boot-complete.target.d
rm -r old/usr/share/prelet/greenboot
rm old/DEBIAN/md5sums
sed -i 's/^Version: .*/Version: 0.1.0/' old/DEBIAN/control
dpkg-deb --build -Znone old old.deb
dpkg --install --force-depends-version old.deb`

// undo returns the commands with which a page removes prelet that was installed from an archive or by `make install`,
// without the rollback to the files before prelet: the kubelet of this machine has none.
func undo(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operators/one-node.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "## 5. Undo")
	_, block, _ := strings.Cut(section, "```sh\nprelet rollback 0\n")
	commands, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatalf("commands of the page's section Undo: got %q, want a block after prelet rollback 0", section)
	}
	return commands
}

// deb is the package that was built.
func (m *machine) deb() string {
	m.T.Helper()
	debs, _ := filepath.Glob("../../bin/boot/prelet_*.deb")
	if len(debs) != 1 {
		m.T.Fatalf("packages in bin/boot: got %q, want one deb. Try: make e2e-boot", debs)
	}

	return debs[0]
}

// putPackage puts the package at /root/prelet.deb.
func (m *machine) putPackage() {
	m.T.Helper()
	deb, err := os.ReadFile(m.deb())
	m.Must(err)
	m.put("/root/prelet.deb", string(deb))
}

// makesExtension puts a system extension with the package's files in the place of the package, as the page for
// builders of images does.
func (m *machine) makesExtension() {
	m.T.Helper()
	const extension = "/var/lib/extensions/prelet"
	m.chroot("mkdir", "-p", extension)
	m.chroot("dpkg-deb", "--extract", "/root/prelet.deb", extension)
	m.put(extension+"/usr/lib/extension-release.d/extension-release.prelet", "ID=_any\n")
	units := extension + "/usr/lib/systemd/system/"
	m.link("../prelet.service", units+"multi-user.target.wants/prelet.service") // as tools/sysext.sh does
	m.link("../prelet-verify.service", units+"kubelet.service.wants/prelet-verify.service")
	m.chroot("dpkg", "--purge", "prelet")
	m.link("/usr/lib/systemd/system/"+checkUnit, checkLink)
	recipe := os.DirFS("../../packaging/image/extension")
	must(m.T, os.CopyFS(m.Root, recipe))
}
