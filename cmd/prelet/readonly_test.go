package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/report"
)

const mountNamespace = "PRELET_TEST_NAMESPACE"

// TestReadOnlyState tests boots and commands while /var/lib/prelet is read-only or full. It starts itself in a user and
// mount namespace of its own, where any user may mount.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	if os.Getenv(mountNamespace) != "" {
		testReadOnlyState(t)
		return
	}

	c := exec.Command(os.Args[0], "-test.run=^TestReadOnlyState$", "-test.v")
	c.Env = append(os.Environ(), mountNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		t.Skipf("needs a user namespace, which this kernel does not permit: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestReadOnlyState") {
		t.Errorf("in the namespace: got error %v, want the test to pass\n%s", err, out)
	}
}

// freeze makes the state folder read-only, until thaw.
func (m *machine) freeze() (thaw func()) {
	m.t.Helper()
	dir := m.stateDir()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		m.t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		m.t.Fatal(err)
	}
	thawed := false
	thaw = func() {
		if !thawed {
			thawed = true
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				m.t.Error(err)
			}
		}
	}
	m.t.Cleanup(thaw)

	return thaw
}

// fill moves the state folder to a file system that is full, until empty.
func (m *machine) fill() (empty func()) {
	m.t.Helper()
	dir, filler := m.stateDir(), m.stateDir()+"/filler"
	m.copyState(dir, m.root+"/copy")
	lock, err := os.Stat(dir + "/lock")
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=700")
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.CopyFS(dir, os.DirFS(m.root+"/copy")); err != nil {
		m.t.Fatal(err)
	}
	if lock.Size() > 0 { // a copy may be sparse
		if err := os.WriteFile(dir+"/lock", make([]byte, lock.Size()), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		m.t.Fatalf("filling %s: got %v, want no space left", dir, err)
	}

	return func() {
		if err := os.Remove(filler); err != nil {
			m.t.Fatal(err)
		}
	}
}

func testReadOnlyState(t *testing.T) {
	degraded := func(m *machine, code string) {
		m.t.Helper()
		s := m.says()
		if len(s.Degraded) == 0 || s.Degraded[0].Code != "cannot-write" ||
			!strings.Contains(s.Degraded[0].Summary, "/var/lib/prelet") {
			m.t.Errorf("status.json: got %+v, want the state folder among what is degraded", s)
		}
		if string(s.Code) != code || m.gateSays() != "PRELET_GENERATION=1" || len(m.starts) != 1 {
			m.t.Errorf("code %q, gate %q, starts %q; want code %q and one start on generation 1",
				s.Code, m.gateSays(), m.starts, code)
		}
		if _, err := os.Stat(m.run + "/" + report.MetricsFile); err != nil {
			m.t.Errorf("metrics: %v", err)
		}
	}

	t.Run("the run folder is full", func(t *testing.T) {
		m := goodNode(t)
		m.relabel("b")
		m.reboot()
		if err := unix.Mount("tmpfs", m.run, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(m.run, unix.MNT_DETACH) })
		if err := os.WriteFile(m.run+"/filler", make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("filling %s: got %v, want no space left", m.run, err)
		}
		before := m.managed()
		m.inside = true
		m.want("run", m.as(app.BootUnit, "run"), ended{40, "", "no space left on device"})
		m.inside = false
		m.sameFiles(before)

		m.self.Started, m.self.Result, m.self.Status, m.self.Sub = m.now, "exit-code", 40, "auto-restart"
		status := m.as("", "status")
		m.want("status", status, ended{3, "prelet.service has ended (exit-code, status 40) and could not report", ""})
		if strings.Contains(status.out, "has not run") || strings.Contains(status.out, "killed") {
			t.Errorf("status: got %s; want neither that prelet has not run nor that it was killed", status.out)
		}
		m.remove(m.run + "/filler")
		m.units.start()
		m.want("the next run", m.as("", "run"), ended{0, "Generation 2 is in place", ""})
	})
	t.Run("nothing to change", func(t *testing.T) {
		m := goodNode(t)
		m.reboot()
		m.freeze()
		run, verify := m.boot()
		m.want("run", run, ended{0, "No changes; generation 1 is in place.", ""})
		if verify.exit != -1 {
			t.Errorf("prelet-verify ran: %+v", verify)
		}
		degraded(m, "")
		m.want("status", m.as("", "status"), ended{2, "read-only", ""})
		m.want("rollback", m.as("", "rollback", "0"), ended{40, "", "read-only"})
		degraded(m, "")
	})

	t.Run("a verdict is awaited", func(t *testing.T) {
		m := newMachine(t)
		m.inside = true
		m.want("run", m.as(app.BootUnit, "run"), ended{0, "prelet-verify judges it", ""})
		for range 4 { // more boots than count as tries
			m.reboot()
			thaw := m.freeze()
			run, verify := m.boot()
			m.want("run", run, ended{0, "eneration 1 is in place", ""})
			m.want("verify", verify, ended{0, "", ""})
			degraded(m, "")
			thaw()
		}
		m.want(
			"verify, when it can be written again",
			m.as(app.VerifyUnit, "verify"),
			ended{0, "the kubelet is healthy on it", ""},
		)
	})

	for _, reserve := range []bool{true, false} { // the space that a commit sets aside
		t.Run(fmt.Sprintf("full, and a verdict is awaited; reserve %v", reserve), func(t *testing.T) {
			m := awaitsVerdict(t)
			if !reserve {
				if err := os.Truncate(m.stateDir()+"/lock", 0); err != nil {
					t.Fatal(err)
				}
			}
			empty := m.fill()
			for range 4 { // more boots than count as tries
				m.reboot()
				run, verify := m.boot()
				m.want("run", run, ended{0, "eneration 2 is in place", ""})
				m.want("verify", verify, ended{0, "", ""})
				if len(m.starts) != 1 || m.gateSays() != "PRELET_GENERATION=2" {
					t.Errorf("gate %q, starts %q; want one start on generation 2", m.gateSays(), m.starts)
				}
				if reserve {
					m.want("status", m.as("", "status"), ended{m.as("", "status").exit, "good", ""})
					break
				}
				m.want("status", m.as("", "status"), ended{2, "no space left", ""})
			}
			if !reserve {
				empty()
				m.want(
					"verify, with space again",
					m.as(app.VerifyUnit, "verify"),
					ended{0, "the kubelet is healthy on it", ""},
				)
			}
		})
	}

	t.Run("a change", func(t *testing.T) {
		m := goodNode(t)
		m.relabel("b")
		m.reboot()
		thaw := m.freeze()
		run, _ := m.boot()
		m.want("run", run, ended{40, "", "read-only"})
		degraded(m, "cannot-write")
		if n := (commit.Attempts{Dir: m.run}).Failures(); n != 1 {
			t.Errorf("failed runs: got %d, want 1", n)
		}
		thaw()
		m.self.Restarts = 1
		m.want("the next try", m.as(app.BootUnit, "run"), ended{0, "eneration 2 is in place", ""})
	})

	t.Run("in the middle of a publish", func(t *testing.T) {
		m := goodNode(t)
		m.reboot()
		m.halfPublished(m.stateDir())
		thaw := m.freeze()
		run, verify := m.boot()
		m.want("run", run, ended{42, "", "read-only"})
		m.want("verify", verify, ended{42, "", "read-only"})
		if n := (commit.Attempts{Dir: m.run}).Failures(); n != 1 || m.gateSays() != "" || len(m.starts) != 0 {
			t.Errorf("failed runs %d, gate %q, starts %q; want one, and a gate that is shut", n, m.gateSays(), m.starts)
		}
		before := m.now
		m.self.Restarts = 1
		m.want("the next try", m.as(app.BootUnit, "run"), ended{42, "", "read-only"})
		if waited := m.now - before; waited < time.Second {
			t.Errorf("waited %s before the next try, want a second at least", waited)
		}
		thaw()
		m.want("when it can be written again", m.as(app.BootUnit, "run"), ended{0, "is in place", ""})
	})

	t.Run("nothing is recorded", func(t *testing.T) {
		m := goodNode(t)
		if err := os.RemoveAll(m.stateDir() + "/generations"); err != nil {
			t.Fatal(err)
		}
		m.reboot()
		m.freeze()
		run, _ := m.boot()
		m.want("run", run, ended{0, "", ""})
		if s := m.says(); s.State != report.Degraded || len(m.starts) != 1 {
			t.Errorf("status.json %+v, starts %q; want degraded, and one start", s, m.starts)
		}
	})
}

// The state folder cannot be opened: the status says so, tries are spaced, and the next one that can goes on.
func TestUnopenedState(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	m.reboot()
	folder := m.stateDir() + "/generations"
	if err := os.Rename(folder, folder+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for try := 1; try < 4; try++ {
		run, verify := m.boot()
		m.want("run", run, ended{40, "", "not a directory"})
		m.want("verify", verify, ended{40, "", "not a directory"})
		m.want("status", m.as("", "status"), ended{1, "may not start: ", ""})
		if s := m.says(); s.Code != "cannot-write" || !strings.Contains(s.Summary, "generations") {
			t.Errorf("status.json: got %+v, want cannot-write and the folder", s)
		}
		if n := (commit.Attempts{Dir: m.run}).Failures(); n != try {
			t.Errorf("failed runs: got %d, want %d", n, try)
		}
		m.self.Restarts = 1
	}
	if err := errors.Join(os.Remove(folder), os.Rename(folder+".aside", folder)); err != nil {
		t.Fatal(err)
	}
	run, _ := m.boot()
	m.want("run", run, ended{0, "No changes; generation 1 is in place.", ""})
	m.want("status", m.as("", "status"), ended{0, "may start, on generation 1", ""})
}
