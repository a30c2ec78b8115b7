package generation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

const inNamespace = "PRELET_TEST_NAMESPACE"

// TestRealFileSystems starts each of its tests again in a user and mount namespace, where any user may mount a tmpfs.
func TestRealFileSystems(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"read-only state":  testReadOnlyInNamespace,
		"scarce space":     testScarceSpaceInNamespace,
		"read-only target": testReadOnlyTargetInNamespace,
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(inNamespace) == "" {
				startInNamespace(t)
				return
			}
			test(t)
		})
	}
}

// startInNamespace runs the current subtest in a child process.
func startInNamespace(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run=^"+strings.Replace(t.Name(), "/", "$/^", 1)+"$", "-test.v")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) ||
		strings.Contains(string(out), "--- SKIP") {
		t.Skipf("needs a user namespace with mounts, which this kernel does not permit: %v %s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("child: got %v, want it to pass\n%s", err, out)
	}
	t.Logf("%s", out)
}

// testReadOnlyInNamespace: the file system of the state folder is read-only, as after an error of the disk, in each
// state that it may be in.
func testReadOnlyInNamespace(t *testing.T) {
	dir := t.TempDir()
	mountSmall(t, dir, "size=50%")
	for _, st := range flipStates(t) {
		at := filepath.Join(dir, strings.ReplaceAll(st.name, " ", "-"))
		must(t, os.Mkdir(at, 0o755))
		b := st.box.copyTo(t, at)
		makeReadOnly(t, b.o.Dir)
		readFrozen(t, b, st, unix.EROFS)
	}
}

// mount mounts something until the test ends.
func mount(t *testing.T, from, at, kind string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount(from, at, kind, flags, options); err != nil {
		t.Skip("needs to mount a file system: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// mountSmall mounts a tmpfs in a folder, which it makes.
func mountSmall(t *testing.T, at, options string) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o755))
	mount(t, "tmpfs", at, "tmpfs", 0, options+",mode=0755")
}

// makeReadOnly makes a folder a read-only mount point until the test ends.
func makeReadOnly(t *testing.T, at string) {
	t.Helper()
	mount(t, at, at, "", unix.MS_BIND, "")
	must(t, unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

// testScarceSpaceInNamespace commits with less and less free space. What the check before a commit allows must
// succeed: the space reserved for a rollback must not be taken from the commit.
func testScarceSpaceInNamespace(t *testing.T) {
	for free := 256 << 10; free < 2<<20; free += 64 << 10 {
		dir := filepath.Join(t.TempDir(), "disk")
		mountSmall(t, dir, "size=8m")
		b := boxAt(t, filepath.Join(dir, "root"))
		b.o.fsync = nil
		b.write("/etc/site.d/other", "1", 0o644)
		s := b.open()
		var targets []Target
		for i := range 100 {
			targets = append(targets, file(fmt.Sprintf("/etc/site.d/%d", i), "1"))
		}
		full := filepath.Join(dir, "fill")
		fill(t, full)
		st, err := os.Stat(full)
		must(t, err)
		must(t, os.Truncate(full, st.Size()-int64(free)))

		txn, err := s.Begin(plan("p1", targets...))
		if err != nil && !strings.Contains(err.Error(), "check space") {
			t.Errorf("%d KiB free: Begin: got %v, want no error or one before anything is written", free>>10, err)
		}
		if err == nil {
			_, err = txn.Commit()
			if err := errors.Join(err, txn.Publish()); err != nil {
				t.Errorf("%d KiB free: got %v, want no error", free>>10, err)
			}
		}
		_ = s.Close()
	}
}

// testReadOnlyTargetInNamespace: after a commit whose targets are all in place, their file system becomes read-only.
// Recovery has nothing to write there.
func testReadOnlyTargetInNamespace(t *testing.T) {
	for at := 1; ; at++ {
		b := boxAt(t, filepath.Join(t.TempDir(), "root"))
		disk := b.path("/etc/site.d")
		mountSmall(t, disk, "size=1m")
		s := b.open()
		p1 := []Target{file("/etc/site.d/a", "1"), file("/etc/site.d/b", "1")}
		b.apply(s, plan("p1", p1...))
		must(t, s.Close())

		kill := &killAt{at: at}
		b.o.Fault = kill.hook
		s = b.open()
		txn, err := s.Begin(plan("p2", file("/etc/site.d/a", "2"), file("/etc/site.d/b", "2")))
		if err == nil {
			if _, err = txn.Commit(); err == nil {
				err = txn.Publish()
			}
		}
		_ = s.Close()
		if err == nil {
			return
		}

		b.o.Fault = nil
		isPublished := b.read("/etc/site.d/a") == "2" && b.read("/etc/site.d/b") == "2"
		if !isPublished {
			continue
		}
		must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		s = b.open()
		if _, err := s.Recover(); err != nil {
			t.Errorf("killed at operation %d: Recover: got %v, want no error", at, err)
		}
		_ = s.Close()
	}
}

// readFrozen reads everything of a store that cannot be written because of want, and is refused every change with
// nothing changed.
func readFrozen(t *testing.T, b *box, st flipState, want unix.Errno) {
	t.Helper()
	before := b.look()
	s := b.open()
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, b.o); fault.CodeOf(err) != fault.Locked {
		t.Errorf("%s: a second Open: got %v, want it locked", st.name, err)
	}
	err := s.ReadOnly()
	if fault.CodeOf(err) != fault.CannotWrite || !errors.Is(err, want) || !strings.Contains(err.Error(), b.o.Dir) {
		t.Errorf("%s: ReadOnly: got %v, want %v and %s", st.name, err, want, b.o.Dir)
	}
	wantJournal := map[string]Phase{"awaits": PhaseVerify, "mid-publish": PhasePublish, "mid-rollback": PhaseRollback}[strings.Fields(st.name)[0]]
	j, err := s.Journal()
	if err != nil || (j == nil) != (wantJournal == "") || j != nil && j.Phase != wantJournal {
		t.Errorf("%s: Journal: got %+v, %v, want phase %q", st.name, j, err, wantJournal)
	}
	least := 2
	if strings.HasSuffix(st.name, "of the first") {
		least = 1
	}
	cur, err := s.Current()
	if err != nil || cur == nil || cur.Gen < least {
		t.Errorf("%s: Current: got %+v, %v; want the generation in place", st.name, cur, err)
	}
	if all, err := s.List(); err != nil || len(all) < least {
		t.Errorf("%s: List: got %d, %v; want all generations", st.name, len(all), err)
	}
	if _, err := s.Compare(flipNext("5")); err != nil {
		t.Errorf("%s: Compare: got %v, want no error", st.name, err)
	}
	_, err = s.Recover()
	if interrupted := wantJournal == PhasePublish || wantJournal == PhaseRollback; interrupted {
		if fault.CodeOf(err) != fault.Interrupted || !errors.Is(err, want) {
			t.Errorf("%s: Recover: got %v, want %s and %v", st.name, err, fault.Interrupted, want)
		}
	} else {
		if err != nil {
			t.Errorf("%s: Recover: got %v, want nothing to do", st.name, err)
		}
		if _, err := s.Begin(flipNext("2")); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: Begin of what is there: got %v, want %v", st.name, err, ErrNothing)
		}
		for name, do := range map[string]func() error{
			"Begin":    func() error { _, err := s.Begin(flipNext("5")); return err },
			"Rollback": func() error { _, err := s.Rollback(2, 1, "unhealthy", true, nil); return err },
			"Hold":     func() error { return s.Hold("p", "w") },
			"Pin":      func() error { return s.Pin(1, "w") },
			"Release":  s.Release,
			"Good":     func() error { return s.Good(2, []byte(`{"ok":false}`)) },
			"Retire":   func() error { return s.Retire(2, "/etc/kubernetes/a") },
			"Collect":  func() error { return s.Collect(1) },
		} {
			if name == "Collect" && st.name == "awaits a verdict" {
				continue // both stay: nothing to remove
			}
			if err := do(); fault.CodeOf(err) != fault.CannotWrite || !errors.Is(err, want) ||
				!strings.Contains(err.Error(), b.o.Dir) {
				t.Errorf("%s: %s: got %v, want %v and %s", st.name, name, err, want, b.o.Dir)
			}
		}
	}
	if now := b.look(); !reflect.DeepEqual(before, now) {
		t.Errorf("%s: something changed:\ngot  %v\nwant %v", st.name, now, before)
	}
}

// fill takes all the space that there is.
func fill(t *testing.T, p string) {
	f, err := os.Create(p)
	must(t, err)
	defer f.Close()
	for n := 1 << 16; n > 0; {
		if _, err := f.Write(make([]byte, n)); errors.Is(err, unix.ENOSPC) {
			n /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImmutableState sets the immutable flag of the state folder, and of everything in it. The node still
// reads what is in place, so that its kubelet starts on it; every change is refused with the flag as the reason.
func TestImmutableState(t *testing.T) {
	for _, st := range flipStates(t) {
		for name, isFlagged := range map[string]func(rel string) bool{
			"the folder": func(rel string) bool { return rel == "." },
			"everything": func(string) bool { return true },
		} {
			b := st.box.copyTo(t, t.TempDir())
			var paths []string
			err := filepath.WalkDir(b.o.Dir, func(p string, _ fs.DirEntry, err error) error {
				if rel, _ := filepath.Rel(b.o.Dir, p); isFlagged(rel) {
					paths = append(paths, p)
				}
				return err
			})
			if err != nil || len(paths) == 0 {
				t.Fatalf("%s: %s: got %q, %v; want paths", st.name, name, paths, err)
			}
			makeImmutable(t, paths...)
			readFrozen(t, b, st, unix.EPERM)
		}
	}
}

// makeImmutable sets the flag of files and folders until the test ends.
func makeImmutable(t *testing.T, paths ...string) {
	t.Helper()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	set := func(p string, flag uint32) error {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags&^immutable|flag))
	}

	for _, p := range paths {
		if err := set(p, immutable); err != nil {
			t.Skip("needs root and a file system with the immutable flag: ", err)
		}
		t.Cleanup(func() {
			if err := set(p, 0); err != nil {
				t.Error(err)
			}
		})
	}
}
