package generation

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// TestSetIDInTheUnit changes a file and a folder that have setuid or setgid, in a process that may not set them, as
// prelet's units. Both are refused before anything is written: a folder is changed after the commit, and a node whose
// commit cannot be finished stays down.
func TestSetIDInTheUnit(t *testing.T) {
	for name, next := range map[string]Target{
		"file": with(file("/etc/kubernetes/x", "new"), func(f *Target) { f.Mode = 0o4755 }),
		"folder": with(folderTarget("/etc/kubernetes/y"), func(f *Target) {
			f.Mode = 0o2750
		}),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.write("/etc/kubernetes/x", "old", 0o755)
			if err := os.Mkdir(b.path("/etc/kubernetes/y"), 0o755); err != nil {
				t.Fatal(err)
			}
			s := b.open()
			forbidSetID(t)

			_, err := apply(s, plan("p1", file("/etc/kubernetes/a", "new"), next))
			if exitOf(err) != fault.CannotWrite || !strings.Contains(err.Error(), "setuid or setgid") {
				t.Errorf("got %v; want code %s and a message about setuid or setgid", err, fault.CannotWrite)
			}
			if _, err := os.Lstat(b.path("/etc/kubernetes/a")); !os.IsNotExist(err) {
				t.Errorf("another file of the plan: got %v; want that nothing was written", err)
			}
		})
	}
}

// TestRollbackWithoutSetID rolls back to a generation, and to the files before prelet, in a process that may not set
// setuid and setgid. The files come back without these bits, with one warning each; a process that may set them
// restores them.
func TestRollbackWithoutSetID(t *testing.T) {
	const tool, dir, own = "/etc/kubernetes/tool", "/etc/kubernetes/dir", "/etc/kubernetes/own"
	first := plan("p1",
		with(folderTarget(dir), func(f *Target) { f.Mode = 0o2750 }),
		with(file(tool, "one"), func(f *Target) { f.Mode = 0o4755 }),
		file(own, "one"),
	)
	for _, c := range []struct {
		to       int
		isUnit   bool
		modes    map[string]os.FileMode
		warnings []string
	}{
		{1, false, map[string]os.FileMode{tool: 0o755 | os.ModeSetuid, dir: 0o750 | os.ModeSetgid}, nil},
		{1, true, map[string]os.FileMode{tool: 0o755, dir: 0o750}, []string{
			dir + " is restored with mode 0750 instead of 2750, because prelet's units may not set setuid and setgid; " +
				"by hand, as root: prelet rollback 1",
			tool + " is restored with mode 0755 instead of 4755, because prelet's units may not set setuid and setgid; " +
				"by hand, as root: prelet rollback 1",
		}},
		{0, false, map[string]os.FileMode{own: 0o751 | os.ModeSetuid | os.ModeSetgid}, nil},
		{0, true, map[string]os.FileMode{own: 0o751}, []string{
			own + " is restored with mode 0751 instead of 6751, because prelet's units may not set setuid and setgid; " +
				"by hand, as root: chmod 6751 " + own,
		}},
	} {
		t.Run(fmt.Sprintf("to %d, in a unit %t", c.to, c.isUnit), func(t *testing.T) {
			b := newBox(t)
			b.write(own, "before", 0o751|os.ModeSetuid|os.ModeSetgid)
			s := b.open()
			if err := s.Good(b.apply(s, first), nil); err != nil {
				t.Fatal(err)
			}
			from := b.apply(s, plan("p2", folderTarget(dir), file(tool, "two"), file(own, "two")))
			if c.isUnit {
				forbidSetID(t)
			}

			warnings, err := s.CheckRollback(from, c.to)
			if err != nil || !slices.Equal(warnings, c.warnings) {
				t.Errorf("check: got %q, %v; want %q and no error", warnings, err, c.warnings)
			}
			gen, err := s.RollbackToJudge(from, c.to, "by hand", false)
			if err != nil {
				t.Fatalf("rollback: got %v; want no error", err)
			}
			for p, want := range c.modes {
				b.wantMode(p, want)
			}
			if err := s.Good(gen, nil); err != nil {
				t.Fatal(err)
			}
			entry, _ := s.CurrentEntry(tool)
			if got, _, err := s.Observe(tool); c.to == 1 && !got.Equal(entry.New) {
				t.Errorf("got %+v, %v; want it as generation %d records it, %+v", got, err, gen, entry.New)
			}
		})
	}
}

// TestReleaseWithoutSetID releases a file that had setuid before prelet.
func TestReleaseWithoutSetID(t *testing.T) {
	const own = "/etc/kubernetes/own"
	b := newBox(t)
	b.write(own, "before", 0o755|os.ModeSetuid)
	s := b.open()
	b.apply(s, plan("p1", file(own, "one")))
	forbidSetID(t)

	next := plan("p2", file("/etc/kubernetes/other", "two"))
	c, err := s.Compare(next)
	if err != nil || len(c.WithoutSetID) != 1 || !strings.Contains(c.WithoutSetID[0], "chmod 4755 "+own) {
		t.Errorf("got %+v, %v; want one warning with chmod 4755 %s", c, err, own)
	}
	b.apply(s, next)
	b.wantMode(own, 0o755)
	if got := b.read(own); got != "before" {
		t.Errorf("got the content %q, want %q", got, "before")
	}
}

// TestFinishWithoutSetID finishes a commit of a process that could set setuid and setgid in one that may not.
func TestFinishWithoutSetID(t *testing.T) {
	const tool, dir = "/etc/kubernetes/tool", "/etc/kubernetes/dir"
	b := newBox(t)
	if err := os.Mkdir(b.path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := b.open()
	tx, err := s.Begin(plan("p1",
		with(folderTarget(dir), func(f *Target) { f.Mode = 0o2750 }),
		with(file(tool, "one"), func(f *Target) { f.Mode = 0o4755 }),
	))
	if err == nil {
		_, err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.path("/etc/kubernetes/" + tempName(1, 1))); err != nil { // as after a power cut
		t.Fatal(err)
	}
	s.Close()
	s = b.open()
	forbidSetID(t)

	if _, err := s.Recover(); err != nil {
		t.Fatalf("got %v; want that the commit is finished", err)
	}
	b.wantMode(tool, 0o755)
	b.wantMode(dir, 0o750)
}

// wantMode compares permissions, setuid and setgid.
func (b *box) wantMode(p string, want os.FileMode) {
	b.t.Helper()
	st, err := os.Lstat(b.path(p))
	if err != nil {
		b.t.Fatal(err)
	}
	if got := st.Mode() & (os.ModePerm | os.ModeSetuid | os.ModeSetgid); got != want {
		b.t.Errorf("%s: got mode %v, want %v", p, got, want)
	}
}

// forbidSetID forbids this thread to set setuid and setgid, as RestrictSUIDSGID= does. The goroutine keeps the thread,
// which ends with it.
func forbidSetID(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()

	const errno = 0x50000 | uint32(unix.EPERM) // SECCOMP_RET_ERRNO
	const allow = 0x7fff0000                   // SECCOMP_RET_ALLOW
	const number, arguments = 0, 16            // offsets in seccomp_data
	var filter []unix.SockFilter
	for call, argument := range map[uint32]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2} {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: arguments + 8*argument},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0o6000, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: errno},
		)
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: allow})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}

	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		at := uintptr(unsafe.Pointer(&program))
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, at, 0, 0)
	}
	if err != nil {
		t.Skip("no seccomp filter here: ", err)
	}
}
