package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	checkUnit   = "prelet-boot-check.service"
	checkLink   = "/etc/systemd/system/boot-complete.target.wants/" + checkUnit
	scriptsUnit = "greenboot-healthcheck.service"
	script      = "50-prelet.sh"
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
	enable := exec.CommandContext(m.T.Context(), "systemctl", "--root="+m.Root, "enable", checkUnit)
	if out, err := enable.CombinedOutput(); err != nil {
		m.T.Fatalf("%s: %v\n%s", enable, err, out)
	}
	m.link("/usr/share/prelet/greenboot/"+script, "/etc/greenboot/check/required.d/"+script)
}

// link makes a symbolic link on the disk, and its folder.
func (m *machine) link(target, path string) {
	m.T.Helper()
	path = m.Root + path
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		m.T.Fatal(err)
	}
}

// requireBlessed waits until the check has ended, and compares whether the boot counts as good.
func (m *machine) requireBlessed(want bool, says string) {
	m.T.Helper()
	for _, unit := range []string{checkUnit, scriptsUnit} {
		m.Within(90*time.Second, unit+" ends", func() string {
			switch state := m.property(unit, "ActiveState"); state {
			case "active", "failed":
				return ""
			default:
				return state
			}
		})
	}
	if state := m.property(scriptsUnit, "ActiveState"); (state == "active") != want {
		m.T.Errorf("%s: got %s; want active: %t", scriptsUnit, state, want)
	}
	log := m.Do("journalctl", "-b", "--no-pager", "-o", "cat", "-u", checkUnit)
	if text := strings.Join(strings.Fields(log), " "); !strings.Contains(text, says) {
		m.T.Errorf("journal of %s: got\n%s\nwant text with %q", checkUnit, log, says)
	}

	m.Settle()
	if state := m.property("bless.service", "ActiveState"); (state == "active") != want {
		m.T.Errorf("bless.service: got %s; want active: %t", state, want)
	}
}

// TestImageOfBadBoot has an image whose site makes the kubelet end: that boot is not complete, nor is the next one, in
// which the plan is held. A rollback by hand is not the fault of the image.
func TestImageOfBadBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.countsBoots()
	m.Start()
	m.requireBlessed(true, "The image works:")
	m.Off()

	m.edit(pool, crash)
	for _, says := range []string{
		"The image does not work: generation 2 was unhealthy",
		"The image does not work: the plan of the site is held",
	} {
		m.Start()
		m.requireBlessed(false, says)
		m.Off()
	}

	m.edit(pool, `"example.com/pool" = "b"`)
	m.Start()
	m.requireBlessed(true, "The image works:")
	if r := m.Try("prelet", "rollback"); r.Exit != 0 {
		t.Fatalf("prelet rollback: got %+v, want exit 0", r)
	}
	m.Off()
	m.Start()
	m.requireBlessed(true, "The image works:")
}

// TestImageAway boots while no API server answers: nothing is known of the image, so it stays. A site that cannot be
// read is its fault.
func TestImageAway(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.countsBoots()
	m.cluster.away()
	m.Start()
	m.requireBlessed(true, "nothing shows that the image is at fault: exit status 20")
	m.Off()

	m.edit(`stage "label" "node"`, `stage "lable" "node"`)
	m.Start()
	m.requireBlessed(false, "The image does not work:")
}

// TestBadImage has a new image with an unchanged site, whose kubelet crashes: the files have a good verdict, and that boot
// is not complete. The next boot, with a kubelet that works, is.
func TestBadImage(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.countsBoots()
	m.put("/etc/standin/always", "1")
	m.Start()
	m.requireBlessed(false, "The image does not work:")
	if s := m.status(); s.Code == 0 {
		t.Errorf("status of a kubelet that crashes: got %+v, want none that is ok", s)
	}
	m.Off()

	if err := os.Remove(m.Root + "/etc/standin/always"); err != nil {
		t.Fatal(err)
	}
	m.Start()
	m.requireBlessed(true, "The image works:")
	m.well(1)
}

// TestNewKubelet has another program of the kubelet, without boot counting: its kubelet is judged as on a new generation.
func TestNewKubelet(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	program, err := os.ReadFile(m.Root + "/usr/bin/kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Root+"/usr/bin/kubelet", append(program, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	m.requireFailingJudged()
}

// TestSameKubelet has a kubelet that crashes although neither its program nor a file has changed: it is judged as well.
func TestSameKubelet(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.requireFailingJudged()
}

// requireFailingJudged boots with a kubelet that crashes, and then lets it work.
func (m *machine) requireFailingJudged() {
	t := m.T
	t.Helper()
	m.put("/etc/standin/always", "1")
	m.Boot()
	m.Within(3*time.Minute, "the kubelet has a verdict", func() string {
		if s := m.status(); len(s.Degraded) == 0 {
			return fmt.Sprintf("status %+v", s)
		}
		return ""
	})
	if s := m.status(); s.Degraded[0].Code != "rolled-back" || s.Code == 0 {
		t.Errorf("status: got %+v, want the verdict on the kubelet", s)
	}
	if first, _, _ := strings.Cut(m.Try("prelet", "status").Out, "\n"); strings.HasSuffix(first, " ok") {
		t.Errorf("the first line of status: got %q, want that the kubelet fails", first)
	}

	if err := os.Remove(m.Root + "/etc/standin/always"); err != nil {
		t.Fatal(err)
	}
	m.Within(time.Minute, "the kubelet that works again is judged again", func() string {
		if s := m.status(); s.Code != 0 || len(s.Degraded) != 0 {
			return fmt.Sprintf("status %+v", s)
		}
		return ""
	})
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
			m.installs()
			m.countsBoots()
			if way.before != nil {
				way.before(m)
			}
			m.Start()
			m.requireBlessed(true, "The image works:")

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
dpkg --install old.deb`

// undo returns the commands with which a page removes prelet that was installed from an archive or by `make install`,
// without the rollback to the files before prelet: the kubelet of this machine has none.
func undo(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/one-node.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## 5. Undo")
	_, block, _ := strings.Cut(section, "```sh\nprelet rollback 0\n")
	commands, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatalf("commands of the page's section Undo: got %q, want a block after prelet rollback 0", section)
	}
	return commands
}

// installs installs the package on the disk, over the files of `make install`.
func (m *machine) installs() {
	m.T.Helper()
	debs, _ := filepath.Glob("../../bin/boot/prelet_*.deb")
	if len(debs) != 1 {
		m.T.Fatalf("packages in bin/boot: got %q, want one deb. Try: make e2e-boot", debs)
	}
	deb, err := os.ReadFile(debs[0])
	if err != nil {
		m.T.Fatal(err)
	}
	m.put("/root/prelet.deb", string(deb))
	m.chroot("dpkg", "--install", "/root/prelet.deb")
}

// chroot runs a command on the disk of a machine that is off.
func (m *machine) chroot(args ...string) {
	m.T.Helper()
	c := exec.CommandContext(m.T.Context(), "chroot", append([]string{m.Root}, args...)...)
	if out, err := c.CombinedOutput(); err != nil {
		m.T.Fatalf("%s: %v\n%s", c, err, out)
	}
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
	if err := os.CopyFS(m.Root, recipe); err != nil {
		m.T.Fatal(err)
	}
}

// TestCheckMasked masks the check, to be sure that it is off: the target is reached all the same.
func TestCheckMasked(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.countsBoots()
	m.link("/dev/null", "/etc/systemd/system/"+checkUnit)
	m.Boot()
	if state := m.property("boot-complete.target", "ActiveState"); state != "active" {
		t.Errorf("boot-complete.target: got %s, want active", state)
	}
	if state := m.property(checkUnit, "LoadState"); state != "masked" {
		t.Errorf("%s: got %s, want masked", checkUnit, state)
	}
}

// TestCheckNotEnabled: without the link nothing is checked, and the target is reached.
func TestCheckNotEnabled(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.countsBoots()
	if err := os.Remove(m.Root + checkLink); err != nil {
		t.Fatal(err)
	}
	m.Boot()
	if state := m.property("boot-complete.target", "ActiveState"); state != "active" {
		t.Errorf("boot-complete.target: got %s, want active", state)
	}
	if state := m.property(checkUnit, "ActiveState"); state != "inactive" {
		t.Errorf("%s: got %s, want inactive", checkUnit, state)
	}
}

// TestImageThatStartsNoKubelet has an image on trial whose kubelet is masked or not enabled.
func TestImageThatStartsNoKubelet(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"mask", "disable"} {
		t.Run(command, func(t *testing.T) {
			m := joined(t)
			m.Do("systemctl", command, "kubelet.service")
			m.Off()
			m.countsBoots()
			m.Start()
			m.requireBlessed(false, "The image does not work:")
			if s := m.status(); command == "mask" && s.Code == 0 {
				t.Errorf("status of a masked kubelet: got %+v, want none that is ok", s)
			}
		})
	}
}
