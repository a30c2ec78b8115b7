package generation

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

const inNamespace = "PRELET_TEST_NAMESPACE"

// TestRealFileSystems runs TestInNamespace in a user and mount namespace of its own, where anybody may mount a tmpfs.
func TestRealFileSystems(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run=^TestInNamespace$", "-test.v")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || strings.Contains(string(out), "--- SKIP") {
		t.Skipf("no user namespace here: %v %s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestInNamespace") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestInNamespace(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("runs in a child process of TestRealFileSystems")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0755"); err != nil {
		t.Skip("--- SKIP: no mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b := boxAt(t, filepath.Join(dir, "root"))
	b.o.fsync = nil
	b.write("/etc/kubernetes/a", "original", 0o644)
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", strings.Repeat("1", 5000))))
	b.apply(s, plan("p2", file("/etc/kubernetes/a", strings.Repeat("2", 5000))))
	refused := func(what error, p Proposal) {
		t.Helper()
		before := b.look()
		_, err := s.Begin(p)
		if !errors.Is(err, what) || exitOf(err) != fault.CannotWrite {
			t.Errorf("want %v: %v", what, err)
		}
		if !reflect.DeepEqual(before, b.look()) || b.litter() != nil {
			t.Errorf("%v: something changed: %v", what, b.litter())
		}
	}
	p3 := plan("p3", file("/etc/kubernetes/a", "3"))

	// A mount point cannot be renamed over (EBUSY, EXDEV).
	b.write("/etc/source", "s", 0o644)
	if err := unix.Mount(b.path("/etc/source"), b.path("/etc/kubernetes/a"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	refused(unix.EBUSY, p3)
	if err := unix.Unmount(b.path("/etc/kubernetes/a"), 0); err != nil {
		t.Fatal(err)
	}

	// A read-only place, as ProtectSystem=strict makes it.
	k := b.path("/etc/kubernetes")
	if err := unix.Mount(k, k, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", k, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refused(unix.EROFS, p3)
	if err := unix.Unmount(k, 0); err != nil {
		t.Fatal(err)
	}

	// A full disk: no commit, but a way back.
	fill(t, filepath.Join(dir, "fill"))
	refused(unix.ENOSPC, p3)
	if _, err := s.Rollback(2, 1, "ill", false); err != nil {
		t.Fatal(err)
	}
	if b.read("/etc/kubernetes/a") != strings.Repeat("1", 5000) || b.litter() != nil {
		t.Error("not gone back", b.litter())
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	b.apply(s, p3)
}

// fill takes all the space that there is.
func fill(t *testing.T, p string) {
	f, err := os.Create(p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 16; n > 0; {
		if _, err := f.Write(make([]byte, n)); errors.Is(err, unix.ENOSPC) {
			n /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImmutable needs a file system with flags and the right to set them.
func TestImmutable(t *testing.T) {
	b := boxAt(t, filepath.Join(t.TempDir(), "root"))
	b.write("/etc/kubernetes/a", "a", 0o644)
	f, err := os.Open(b.path("/etc/kubernetes/a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skip("cannot set the flag here:", err)
	}
	t.Cleanup(func() {
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0); err != nil {
			t.Error(err)
		}
	})
	s := b.open()
	_, err = s.Begin(plan("p", file("/etc/kubernetes/a", "b")))
	if exitOf(err) != fault.CannotWrite || !strings.Contains(err.Error(), "chattr -i") {
		t.Error(err)
	}
}
