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
	scriptsUnit = "greenboot-healthcheck.service"
	script      = "50-prelet.sh"
)

// countsBoots enables the check of the image on the disk, and a unit that marks a complete boot as good, as
// systemd-bless-boot or bootc does. Another unit runs the script for greenboot as greenboot does; it marks nothing.
func (m *machine) countsBoots() {
	m.t.Helper()
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
	enable := exec.CommandContext(m.t.Context(), "systemctl", "--root="+m.root, "enable", checkUnit)
	if out, err := enable.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v\n%s", enable, err, out)
	}
	m.link("/usr/share/prelet/greenboot/"+script, "/etc/greenboot/check/required.d/"+script)
}

// link makes a symbolic link on the disk, and its folder.
func (m *machine) link(target, path string) {
	m.t.Helper()
	path = m.root + path
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		m.t.Fatal(err)
	}
}

// requireBlessed waits until the check has ended, and compares whether the boot counts as good.
func (m *machine) requireBlessed(want bool, says string) {
	m.t.Helper()
	for _, unit := range []string{checkUnit, scriptsUnit} {
		m.within(90*time.Second, unit+" ends", func() string {
			switch state := m.property(unit, "ActiveState"); state {
			case "active", "failed":
				return ""
			default:
				return state
			}
		})
	}
	if state := m.property(scriptsUnit, "ActiveState"); (state == "active") != want {
		m.t.Errorf("%s: got %s; want active: %t", scriptsUnit, state, want)
	}
	log := m.do("journalctl", "-b", "--no-pager", "-o", "cat", "-u", checkUnit)
	if text := strings.Join(strings.Fields(log), " "); !strings.Contains(text, says) {
		m.t.Errorf("journal of %s: got\n%s\nwant text with %q", checkUnit, log, says)
	}

	m.settled()
	if state := m.property("bless.service", "ActiveState"); (state == "active") != want {
		m.t.Errorf("bless.service: got %s; want active: %t", state, want)
	}
}

// TestImageOfBadBoot has an image whose site makes the kubelet end: that boot is not complete, nor is the next one, in
// which the plan is held. A rollback by hand is not the fault of the image.
func TestImageOfBadBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.countsBoots()
	m.start()
	m.requireBlessed(true, "The image works:")
	m.off()

	m.edit(pool, crash)
	for _, says := range []string{
		"The image does not work: generation 2 was unhealthy",
		"The image does not work: the plan of the site is held",
	} {
		m.start()
		m.requireBlessed(false, says)
		m.off()
	}

	m.edit(pool, `"example.com/pool" = "b"`)
	m.start()
	m.requireBlessed(true, "The image works:")
	if r := m.try("prelet", "rollback"); r.exit != 0 {
		t.Fatalf("prelet rollback: got %+v, want exit 0", r)
	}
	m.off()
	m.start()
	m.requireBlessed(true, "The image works:")
}

// TestImageAway boots while no API server answers: nothing is known of the image, so it stays. A site that cannot be
// read is its fault.
func TestImageAway(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.countsBoots()
	m.cluster.away()
	m.start()
	m.requireBlessed(true, "nothing shows that the image is at fault: exit status 20")
	m.off()

	m.edit(`stage "label" "node"`, `stage "lable" "node"`)
	m.start()
	m.requireBlessed(false, "The image does not work:")
}

// TestBadImage has a new image with an unchanged site, whose kubelet crashes: the files have a good verdict, and that boot
// is not complete. The next boot, with a kubelet that works, is.
func TestBadImage(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.countsBoots()
	m.put("/etc/standin/always", "1")
	m.start()
	m.requireBlessed(false, "The image does not work:")
	if s := m.status(); s.Code == 0 {
		t.Errorf("status of a kubelet that crashes: got %+v, want none that is ok", s)
	}
	m.off()

	if err := os.Remove(m.root + "/etc/standin/always"); err != nil {
		t.Fatal(err)
	}
	m.start()
	m.requireBlessed(true, "The image works:")
	m.well(1)
}

// TestNewKubelet has another program of the kubelet, without boot counting: its kubelet is judged as on a new generation.
func TestNewKubelet(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	program, err := os.ReadFile(m.root + "/usr/bin/kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.root+"/usr/bin/kubelet", append(program, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	m.put("/etc/standin/always", "1")
	m.boot()
	m.within(3*time.Minute, "the kubelet has a verdict", func() string {
		if s := m.status(); len(s.Degraded) == 0 {
			return fmt.Sprintf("status %+v", s)
		}
		return ""
	})
	if s := m.status(); s.Degraded[0].Code != "rolled-back" || s.Code == 0 {
		t.Errorf("status: got %+v, want the verdict on the kubelet", s)
	}

	if err := os.Remove(m.root + "/etc/standin/always"); err != nil {
		t.Fatal(err)
	}
	m.within(time.Minute, "the kubelet that works again is judged again", func() string {
		if s := m.status(); s.Code != 0 || len(s.Degraded) != 0 {
			return fmt.Sprintf("status %+v", s)
		}
		return ""
	})
}

// TestCheckGone removes the units as a removal of the package, a downgrade or an extension that is not merged does. The link
// that enabled the check stays, and fails no target.
func TestCheckGone(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.countsBoots()
	const folder = "/usr/lib/systemd/system/"
	for _, file := range []string{checkUnit, "boot-complete.target.d/50-prelet.conf"} {
		if err := os.Remove(m.root + folder + file); err != nil {
			t.Fatal(err)
		}
	}
	m.boot()
	if state := m.property("boot-complete.target", "ActiveState"); state != "active" {
		t.Errorf("boot-complete.target: got %s, want active", state)
	}
}

// TestCheckNotEnabled: without the link nothing is checked, and the target is reached.
func TestCheckNotEnabled(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.off()
	m.countsBoots()
	if err := os.Remove(m.root + "/etc/systemd/system/boot-complete.target.wants/" + checkUnit); err != nil {
		t.Fatal(err)
	}
	m.boot()
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
			m.do("systemctl", command, "kubelet.service")
			m.off()
			m.countsBoots()
			m.start()
			m.requireBlessed(false, "The image does not work:")
			if s := m.status(); command == "mask" && s.Code == 0 {
				t.Errorf("status of a masked kubelet: got %+v, want none that is ok", s)
			}
		})
	}
}
