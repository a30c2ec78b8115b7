package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Mounts that come late, not at all, on demand, or by hand, over the folders that prelet writes to.

const onMount = "/data/kubelet" // what is mounted at /var/lib/kubelet

// copies copies a folder of the machine that is off to another place of its disk.
func (m *machine) copies(from, to string) {
	m.T.Helper()
	if out, err := exec.Command("sh", "-c", `mkdir -p "$2" && cp -a "$1/." "$2"`, "sh", m.Root+from, m.Root+to).
		CombinedOutput(); err != nil {
		m.T.Fatalf("copying %s: got %v: %s; want no error", from, err, out)
	}
}

// fstab writes /etc/fstab, and the unit that makes a mount of /etc/fstab wait for two seconds.
func (m *machine) fstab(lines ...string) {
	m.T.Helper()
	m.put("/etc/fstab", strings.Join(lines, "\n")+"\n")
	m.put("/etc/systemd/system/slow.service",
		"[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sleep 2\n")
}

// wholeOn: the kubelet runs on this, whole, and prelet finds nothing to do.
func (m *machine) wholeOn(when, name string) {
	m.T.Helper()
	m.runsOn(when, name)
	if starts := m.starts(); starts[len(starts)-1].Domain != name {
		m.T.Errorf("%s: the last start was %+v, want it on %s", when, starts[len(starts)-1], name)
	}
	if r := m.Try("prelet", "verify"); r.Exit != 0 {
		m.T.Errorf("%s: prelet verify: got %+v, want 0", when, r)
	}
}

// A mount that nothing waits for (nofail) and that comes two seconds late: prelet waits for it, and writes to it;
// also one that is not among those that the units name. At each boot, and the kubelet never starts on a mixture.
func TestLateMount(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.copies("/var/lib/kubelet", onMount)
	if err := os.MkdirAll(m.Root+"/etc/kubernetes/late", 0o755); err != nil {
		t.Fatal(err)
	}
	m.put("/data/late/.keep", "")
	m.fstab(
		onMount+" /var/lib/kubelet none bind,nofail,x-systemd.requires=slow.service 0 0",
		"/data/late /etc/kubernetes/late none bind,nofail,x-systemd.requires=slow.service 0 0",
	)
	for n, name := range []string{"late1", "late2"} {
		m.both(name)
		m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `  kubelet_config {`, `  file "late" {
    path    = "/etc/kubernetes/late/pool"
    content = "`+name+`"
  }
  kubelet_config {`, 1))
		m.Boot()
		m.verdict("good")
		m.wholeOn(name, name)
		if !strings.Contains(m.read(onMount+"/config.yaml"), name) || m.read("/data/late/pool") != name {
			t.Errorf("%s: config.yaml on the mount: got %s; the other file there: %q; want text with %q and read %q",
				name, m.read(onMount+"/config.yaml"), m.read("/data/late/pool"), name, name)
		}
		if s := m.status(); s.Generation != 2+n || len(s.Degraded) != 0 || s.Code != 0 {
			t.Errorf("%s: status: %+v, want generation %d and nothing degraded", name, s, 2+n)
		}
		if m.property("var-lib-kubelet.mount", "ActiveState") != "active" {
			t.Fatal("nothing is mounted: nothing is shown")
		}
		m.Off()
	}
	if m.Exists("/etc/kubernetes/late/pool") {
		t.Error("it was written below the mount point as well")
	}
}

// knowsMount waits until systemd has read that a mount was made or removed by hand. It does so a moment later.
func (m *machine) knowsMount(state string) {
	m.T.Helper()
	m.Within(10*time.Second, "systemd has read the mounts", func() string {
		if now := m.property("var-lib-kubelet.mount", "ActiveState"); now != state {
			return now
		}
		return ""
	})
}

// A mount that fails (nofail): the node boots without it, and says so. When something is mounted there by hand,
// prelet verify finds that it hides the files, keeps the kubelet from starting, and asks for a run, which puts them
// there.
func TestMountMissing(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.fstab("/etc/hostname/none /var/lib/kubelet none bind,nofail 0 0")
	m.both("absent")
	m.Boot()
	m.verdict("good")
	s := m.status()
	if len(s.Degraded) != 1 || s.Degraded[0].Code != "mount-missing" ||
		!strings.Contains(s.Degraded[0].Summary, "var-lib-kubelet.mount: it is failed") ||
		s.Code != 2 {
		t.Errorf("status: %+v, want it degraded for the mount", s)
	}
	m.Do("systemctl", "reset-failed") // the mount
	m.runsOn("without the disk", "absent")
	for _, line := range [][]string{{"prelet", "verify"}, {"prelet", "run"}} {
		m.Do("mkdir", "-p", "/data/absent")
		m.Do("mount", "--bind", "/data/absent", "/var/lib/kubelet")
		m.knowsMount("active")
		r := m.Try(line...)
		if want := map[string]int{"verify": 50, "run": 0}[line[1]]; r.Exit != want {
			t.Errorf("%q: got %+v, want %d", line, r, want)
		}
		if said := strings.Join(strings.Fields(r.Errors), " "); line[1] == "verify" &&
			!strings.Contains(said, "and /var/lib/kubelet is mounted there since") {
			t.Errorf("%q: got %q, want what was mounted", line, said)
		}
		m.Within(30*time.Second, "a run puts the files on the mount", func() string {
			if !strings.Contains(m.read("/data/absent/config.yaml"), "absent") {
				return "config.yaml is not there"
			}
			return ""
		})
		m.wholeOn(line[1], "absent")
		if s := m.status(); len(s.Degraded) != 0 || s.State != "ok" {
			t.Errorf("%q: status: %+v, want it ok", line, s)
		}
		m.Do("systemctl", "stop", "kubelet")
		m.Do("umount", "/var/lib/kubelet")
		m.knowsMount("inactive")
		m.Do("rm", "-r", "/data/absent")
		m.Do("systemctl", "start", "kubelet")
		if r := m.Try("prelet", "run"); r.Exit != 0 {
			t.Errorf("unmounted again: got %+v, want 0", r)
		}
		m.runsOn("unmounted again", "absent")
	}
}

// The disk of the state folder, or of /var, is absent (nofail): prelet runs. The files that are there are adopted. With
// the disk back its generations are, too.
func TestStateMountMissing(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	for _, at := range []string{"/var/lib/prelet", "/var/tmp", "/var"} {
		m.fstab("/etc/hostname/none " + at + " none bind,nofail 0 0")
		if at == "/var/lib/prelet" { // what is below the mount point
			if err := errors.Join(os.Rename(m.Root+at, m.Root+"/data-state"), os.Mkdir(m.Root+at, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		m.Boot()
		m.Within(30*time.Second, at+" is absent: the kubelet runs", func() string {
			return trouble("active", m.property("kubelet", "ActiveState"))
		})
		s := m.status()
		missing := len(s.Degraded) == 1 && s.Degraded[0].Code == "mount-missing"
		if missing != (at == "/var") { // no managed file is below the others
			t.Errorf("%s is absent: status: %+v, want mount-missing: %v", at, s, at == "/var")
		}
		if at == "/var/lib/prelet" { // in the other boots nothing is new
			m.verdict("good")
			if out := m.Do("prelet", "history"); !strings.Contains(out, "adopted") {
				t.Errorf("%s is absent: history: got %s, want it adopted", at, out)
			}
		}
		m.Off()
	}

	m.fstab("/data-state /var/lib/prelet none bind,nofail,x-systemd.requires=slow.service 0 0")
	m.Boot()
	m.running()
	if s := m.status(); len(s.Degraded) != 0 || s.Code != 0 {
		t.Errorf("the disk is back: status: %+v, want it ok", s)
	}
	if out := m.Do("prelet", "history"); strings.Contains(out, "adopted") {
		t.Errorf("the disk is back: history: got %s, want that of the disk", out)
	}
}

// What is mounted when somebody looks counts as mounted: prelet's own look mounts it.
func TestAutomount(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.copies("/var/lib/kubelet", onMount)
	m.fstab(onMount + " /var/lib/kubelet none bind,nofail,x-systemd.automount 0 0")
	m.both("auto")
	m.Boot("--bind=/dev/autofs")
	if m.property("var-lib-kubelet.automount", "ActiveState") != "active" {
		t.Skip("no automount here: " + m.property("var-lib-kubelet.automount", "Result"))
	}
	m.verdict("good")
	m.wholeOn("automount", "auto")
	if !strings.Contains(m.read(onMount+"/config.yaml"), "auto") {
		t.Errorf("config.yaml on the mount: got %s; want text with \"auto\"", m.read(onMount+"/config.yaml"))
	}
	if s := m.status(); len(s.Degraded) != 0 {
		t.Errorf("status: %+v, want nothing degraded", s)
	}
}

// Somebody mounts an older copy by hand over the files of the generation in place: prelet run puts them on it; where
// the gate is lost too, prelet-verify does not open it on a mixture, and asks for a run; and the next boot is well
// without the mount.
func TestMountedByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("cp", "-a", "/var/lib/kubelet", "/var/lib/older")
	m.both("new")
	m.Do("prelet", "run")
	m.runsOn("before", "new")

	m.Do("mount", "--bind", "/var/lib/older", "/var/lib/kubelet")
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("prelet run: got %+v, want 0", r)
	}
	m.wholeOn("run", "new")
	if !strings.Contains(m.read("/var/lib/older/config.yaml"), "new") {
		t.Errorf("config.yaml on the mount: got %s; want text with \"new\"", m.read("/var/lib/older/config.yaml"))
	}
	m.Do("umount", "-l", "/var/lib/kubelet")
	m.wholeOn("unmounted", "new")

	m.Do(
		"sh",
		"-c",
		"rm -rf /var/lib/older; mkdir /var/lib/older; rm /run/prelet/kubelet.env; mount --bind /var/lib/older "+
			"/var/lib/kubelet",
	)
	starts := len(m.starts())
	m.Do("systemctl", "kill", "-s", "KILL", "kubelet")
	m.Within(60*time.Second, "a run puts the files on the mount", func() string {
		if !strings.Contains(m.read("/var/lib/older/config.yaml"), "new") || len(m.starts()) == starts {
			return fmt.Sprintf("%d starts", len(m.starts())-starts)
		}
		return ""
	})
	m.Do("systemctl", "reset-failed")
	m.wholeOn("verify", "new")

	m.Off()
	m.Boot()
	m.wholeOn("next boot", "new")
}
