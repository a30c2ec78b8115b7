package boot

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The state folder is lost while the kubelet runs, and before a boot: the files are adopted. By hand the kubelet
// is not stopped.
func TestStateLost(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("rm", "-rf", "/var/lib/prelet")
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("prelet run: got %+v; want exit 0", r)
	}
	m.well(2)
	if n := len(m.starts()); n != 1 {
		t.Errorf("starts of the kubelet: got %d, want 1", n)
	}
	if r := m.Try("prelet", "rollback", "0"); r.Exit != 64 {
		t.Errorf("prelet rollback 0: got %+v, want 64", r)
	}

	m.Do("systemctl", "reset-failed")
	m.Off()
	if err := os.RemoveAll(m.Root + "/var/lib/prelet"); err != nil {
		t.Fatal(err)
	}
	m.Boot()
	m.verdict("good")
	m.well(1)
	if r := m.Try("prelet", "status"); !strings.Contains(r.Out, "adopted:") {
		t.Errorf("prelet status: got %+v, want it to say adopted", r)
	}

	m.Off()
	before := m.disk()
	m.Boot()
	m.well(1)
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("the boot after it wrote: got %q; want none", d)
	}
}

// The state folder is read-only at a boot with nothing to change: the gate opens, the status says so, and no unit is
// started again and again.
func TestStateReadOnly(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.put("/etc/systemd/system/readonly.service", "[Unit]\nBefore=prelet.service\n[Service]\nType=oneshot\n"+
		"ExecStart=/bin/sh -c 'mount --bind /var/lib/prelet /var/lib/prelet && mount -o remount,bind,ro "+
		"/var/lib/prelet'\n")
	if err := os.Symlink(
		"../readonly.service",
		m.Root+"/etc/systemd/system/multi-user.target.wants/readonly.service",
	); err != nil {
		t.Fatal(err)
	}
	m.Boot()
	s := m.status()
	if s.Code != 2 || s.Exit != 0 || s.Generation != 1 || !s.Gate.Open || len(s.Degraded) != 1 {
		t.Errorf("status: got %+v, want degraded with the gate open on generation 1", s)
	}
	m.running()
	for _, unit := range []string{"prelet", "prelet-verify"} {
		if n := m.property(unit, "NRestarts"); n != "0" {
			t.Errorf("restarts of %s: got %s, want 0", unit, n)
		}
	}
	m.Try("prelet", "status", "--wait") // prelet-verify has the folder open
	m.Do("umount", "/var/lib/prelet")
	m.Do("prelet", "run")
	m.well(1)
}

// /run/prelet is removed while all runs, and then the kubelet crashes.
func TestRunFolderLost(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("rm", "-rf", "/run/prelet")
	if r := m.Try("prelet", "status"); r.Exit != 2 || !strings.Contains(r.Out, "has run in this boot") {
		t.Errorf("prelet status: got %+v, want that it has run, and 2", r)
	}
	m.Do("systemctl", "kill", "--signal=KILL", "kubelet")
	m.Within(60*time.Second, "the kubelet runs again", func() string {
		if n := len(m.starts()); n != 2 {
			return fmt.Sprintf("%d starts", n)
		}
		return ""
	})
	m.well(1)
}

// The state folder and /run/prelet are removed together while all runs, as by systemctl clean --what=all, and then
// the kubelet crashes: prelet-verify asks for a run, which adopts the files, and the kubelet starts again.
func TestStateAndRunFolderLost(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("rm", "-rf", "/run/prelet", "/var/lib/prelet")
	if r := m.Try("prelet", "status"); !strings.Contains(r.Out, "prelet run adopts the files") {
		t.Errorf("prelet status: got %+v, want that prelet run adopts the files", r)
	}
	m.Do("systemctl", "kill", "--signal=KILL", "kubelet")
	m.Within(60*time.Second, "the kubelet runs again", func() string {
		if n := len(m.starts()); n < 2 {
			return fmt.Sprintf("%d starts", n)
		}
		return ""
	})
	m.verdict("good")
	m.well(1)
	if r := m.Try("prelet", "status"); !strings.Contains(r.Out, "adopted:") {
		t.Errorf("prelet status: got %+v, want it to say adopted", r)
	}
}

// The last good generation is damaged, and a boot brings a plan on which the kubelet dies: the good one before it comes
// back.
func TestLastGoodDamaged(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b"`)
	m.Do("prelet", "run")
	m.well(2)
	m.Off()
	file := m.Root + "/var/lib/prelet/generations/2"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-2] ^= 1
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m.edit(pool, crash)
	m.Boot()
	m.Within(90*time.Second, "the way back", func() string {
		if s := m.status(); s.State != "failed" || s.Generation != 4 || !s.Gate.Open || s.Verdict != "good" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.running("prelet-verify.service")
	starts := m.starts()
	if last := starts[len(starts)-1]; last.Labels["example.com/pool"] != "a" || last.Generation != "4" {
		t.Errorf("last start: got %+v, want pool a on generation 4", last)
	}
}
