package generation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

func TestRefusals(t *testing.T) {
	deep := func(p string) Target { return file(p, "new") }
	for _, c := range []struct {
		name  string
		build func(b *box) error
		t     Target
		say   []string
	}{
		{"target is a link", func(b *box) error { return os.Symlink(b.path("/etc/kubernetes/real"), b.path("/etc/kubernetes/a")) }, deep("/etc/kubernetes/a"), []string{"/etc/kubernetes/a", "link"}},
		{"dangling link", func(b *box) error { return os.Symlink("nowhere", b.path("/etc/kubernetes/a")) }, deep("/etc/kubernetes/a"), []string{"link"}},
		{"link above the target", func(b *box) error { return os.Symlink(b.path("/etc/kubernetes"), b.path("/etc/k8s")) }, deep("/etc/k8s/a"), []string{"/etc/k8s", "link", "real path"}},
		{"file above the target", func(b *box) error { b.write("/etc/f", "x", 0o644); return nil }, deep("/etc/f/a"), []string{"/etc/f", "not a folder"}},
		{"pipe", func(b *box) error { return unix.Mkfifo(b.path("/etc/kubernetes/a"), 0o600) }, deep("/etc/kubernetes/a"), []string{"neither a file nor a folder"}},
		{"parent writable by all", func(b *box) error { return os.Chmod(b.path("/etc/kubernetes"), 0o777) }, deep("/etc/kubernetes/a"), []string{"/etc/kubernetes", "0777", "chmod o-w"}},
		{"sticky parent", func(b *box) error { return os.Chmod(b.path("/etc/kubernetes"), 0o777|os.ModeSticky) }, deep("/etc/kubernetes/a"), []string{"chmod o-w"}},
		{"folder above writable by all", func(b *box) error { return os.Chmod(b.path("/etc"), 0o777) }, deep("/etc/kubernetes/a"), []string{"check /etc:", "0777"}},
		{"folder where a file is planned", func(b *box) error { return os.Mkdir(b.path("/etc/kubernetes/a"), 0o755) }, deep("/etc/kubernetes/a"), []string{"a file is planned where a dir is"}},
		{"own folder", nil, deep("/var/lib/prelet/journal.json"), []string{"own folder"}},
		{"not clean", nil, deep("/etc/../etc/passwd"), []string{"clean"}},
		{"temporary's name", nil, deep("/etc/kubernetes/.prelet-1-0.tmp"), []string{"temporaries"}},
		{"changed since", nil, with(deep("/etc/kubernetes/z"), func(t *Target) { t.Seen = &State{Kind: File, SHA256: Checksum(nil)} }), []string{"changed since", "/etc/kubernetes/z"}},
		{"too large", func(b *box) error {
			b.write("/etc/kubernetes/a", "", 0o644)
			return os.Truncate(b.path("/etc/kubernetes/a"), MaxContent+1)
		}, deep("/etc/kubernetes/a"), []string{"bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t)
			b.write("/etc/kubernetes/real", "real", 0o644)
			if c.build != nil {
				if err := c.build(b); err != nil {
					t.Fatal(err)
				}
			}
			s := b.open()
			before := b.look()
			_, err := s.Begin(plan("p", file("/etc/kubernetes/ok", "fine"), c.t))
			if exitOf(err) != fault.CannotWrite {
				t.Fatalf("got code %q: %v; want cannot-write", exitOf(err), err)
			}
			for _, w := range c.say {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want %q in it", err, w)
				}
			}
			if !reflect.DeepEqual(before, b.look()) || b.litter() != nil {
				t.Error("something changed")
			}
		})
	}
}

func (b *box) link(to, at string) {
	b.t.Helper()
	if err := os.Symlink(b.path(to), b.path(at)); err != nil {
		b.t.Fatal(err)
	}
}

// A walk refuses a link at the end of a path and above it.
func TestWalkRefusesLinks(t *testing.T) {
	b := newBox(t)
	b.link("/etc/kubernetes", "/etc/k8s")
	tr, err := newTree(b.root)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.root.close()
	for p, want := range map[string]error{"/etc/k8s": unix.ELOOP, "/etc/k8s/x": unix.ELOOP, "/etc/none/x": unix.ENOENT, "/etc/kubernetes": nil, "/": nil} {
		f, err := tr.walk(p, openFolder, nil)
		if !errors.Is(err, want) {
			t.Errorf("walk %s: %v, want %v", p, err, want)
		}
		if f != nil {
			f.close()
		}
	}
}

// Each errno, at each operation before COMMIT: nothing changed, nothing is left, the class is 40 and the message has
// a next step.
func TestErrnoBeforeCommit(t *testing.T) {
	b := sweepBox(t, 7)
	start := b.look()
	for _, errno := range []error{unix.ENOSPC, unix.EROFS, unix.EIO, unix.EDQUOT, unix.EMFILE, unix.EPERM} {
		for k := 1; ; k++ {
			s, hook := b.openHooked()
			left, op := k, ""
			*hook = failOnce(&left, &op, errno)
			_, err := s.Begin(b.next)
			*hook = nil
			if err == nil {
				if left > 0 && k > 20 {
					s.Close()
					b.recover(t)
					break
				}
				t.Fatalf("%v at %d (%s): got no error, want it", errno, k, op)
			}
			var f *fault.Fault
			if !errors.As(err, &f) {
				t.Fatalf("%v at %d: got %v, want a fault", errno, k, err)
			}
			e, ok := OnPath(f)
			if !ok || f.Code != fault.CannotWrite || !errors.Is(err, errno) || f.Next == "" || e.Path == "" {
				t.Fatalf("%v at %d: got %v, want its operation, its path and a next step", errno, k, err)
			}
			s.Close()
			if l := b.litter(); l != nil {
				t.Fatalf("%v at %d (%s): left behind: got %v, want nothing", errno, k, e.Op, l)
			}
			if !reflect.DeepEqual(start, b.lookTargets(start)) {
				t.Fatalf("%v at %d: something changed, want nothing touched", errno, k)
			}
		}
	}
}

// failOnce refuses the k-th operation, says which it was, and lets everything else pass. The ballast does not count:
// without it a commit goes on.
func failOnce(k *int, which *string, err error) func(op, p string) error {
	return func(op, p string) error {
		if filepath.Base(p) == lockName {
			return nil
		}
		if *k--; *k == 0 {
			*which = op
			return err
		}
		return nil
	}
}

// After EIO on fsync the state of the data is unknown: it is not asked a second time.
func TestFsyncIsNotRepeated(t *testing.T) {
	b := newBox(t)
	calls, bad := 0, 0
	s := b.open()
	s.Close()
	b.o.fsync = func(int) error {
		if calls++; calls == 4 { // the folder of the state, the generation, its folder, and then a temporary
			bad++
			return unix.EIO
		}
		return nil
	}
	seen := map[string]int{}
	b.o.Fault = func(op, p string) error {
		if op == opFsync && strings.HasSuffix(p, tmpSuffix) {
			seen[p]++
		}
		return nil
	}
	s = b.open()
	_, err := s.Begin(plan("p", file("/etc/kubernetes/a", "1"), file("/etc/kubernetes/b", "2")))
	if !errors.Is(err, unix.EIO) || exitOf(err) != fault.CannotWrite || bad != 1 {
		t.Fatal(err, bad)
	}
	for p, n := range seen {
		if n > 1 {
			t.Errorf("%s: got %d fsyncs, want one", p, n)
		}
	}
}

// TestFileSizeLimit commits with a limit of file sizes. The limit is one of the whole process, so a child sets it.
func TestFileSizeLimit(t *testing.T) {
	if os.Getenv("PRELET_TEST_FSIZE") != "" {
		testFileSizeLimit(t)
		return
	}

	c := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimit$", "-test.v")
	c.Env = append(os.Environ(), "PRELET_TEST_FSIZE=1")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFileSizeLimit") {
		t.Errorf("child: got %v, want it to pass\n%s", err, out)
	}
}

func testFileSizeLimit(t *testing.T) {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 16, Max: 1 << 16}); err != nil {
		t.Fatal(err)
	}
	b := newBox(t)
	b.write("/etc/kubernetes/a", "old", 0o644)
	s := b.open()
	before := b.look()
	_, err := s.Begin(plan("p", file("/etc/kubernetes/a", strings.Repeat("x", 1<<17))))
	if exitOf(err) != fault.CannotWrite || !errors.Is(err, unix.EFBIG) {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, b.look()) || b.litter() != nil {
		t.Error("something changed or was left", b.litter())
	}
}

// The targets change between Begin and Commit, or between Commit and Publish.
func TestForeignEdits(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "old a", 0o644)
	b.write("/etc/kubernetes/b", "old b", 0o644)
	s := b.open()
	p := plan("p", file("/etc/kubernetes/a", "new a"), file("/etc/kubernetes/b", "new b"))
	tx, err := s.Begin(p)
	if err != nil {
		t.Fatal(err)
	}
	b.write("/etc/kubernetes/b", "edited", 0o644)
	if _, err := tx.Commit(); !errors.Is(err, ErrChanged) || exitOf(err) != fault.CannotWrite {
		t.Fatal(err)
	}
	if b.litter() != nil || b.read("/etc/kubernetes/b") != "edited" {
		t.Error("left behind", b.litter())
	}
	if tx, err = s.Begin(p); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	b.write("/etc/kubernetes/b", "edited again", 0o644)
	err = tx.Publish()
	var stuck *StuckError
	if !errors.As(err, &stuck) || stuck.Path != "/etc/kubernetes/b" || exitOf(err) != fault.NeedsPerson {
		t.Fatal(err)
	}
	if _, err := s.Recover(); !errors.As(err, &stuck) {
		t.Fatal(err)
	}
	if b.read("/etc/kubernetes/a") != "old a" || b.read("/etc/kubernetes/b") != "edited again" {
		t.Error("a stuck recovery touched a target")
	}
	// A person runs the first command of the message. Then the next commit puts both targets in place, and the
	// generation keeps the bytes of the edit.
	if len(stuck.Commands) != 2 || stuck.Journal != filepath.Join(b.o.Dir, journalName) {
		t.Fatalf("stuck: got commands %q and journal %s; want two commands and the journal",
			stuck.Commands, stuck.Journal)
	}
	if out, err := exec.Command("sh", "-c", stuck.Commands[0]).CombinedOutput(); err != nil {
		t.Fatalf("%s: got %v, %s; want no error", stuck.Commands[0], err, out)
	}
	if j, err := s.Recover(); err != nil || j != nil {
		t.Fatalf("Recover: got %+v, %v; want nothing in progress", j, err)
	}
	b.apply(s, p)
	if b.read("/etc/kubernetes/a") != "new a" || b.read("/etc/kubernetes/b") != "new b" {
		t.Errorf("after the next commit: got %q and %q; want the new contents",
			b.read("/etc/kubernetes/a"), b.read("/etc/kubernetes/b"))
	}
	if kept, err := s.Content(Checksum([]byte("edited again"))); err != nil || string(kept) != "edited again" {
		t.Errorf("the edited bytes: got %q, %v; want them kept", kept, err)
	}
	if l := b.litter(); l != nil {
		t.Errorf("left behind: got %v; want nothing", l)
	}
}

func TestDamagedJournal(t *testing.T) {
	for name, content := range map[string]string{
		"empty":       "",
		"no json":     "{",
		"newer":       `{"version":99,"phase":"publish","something":1}`,
		"unknown key": `{"version":1,"phase":"publish","gen":1,"extra":1}`,
		"bad phase":   `{"version":1,"phase":"clean","gen":1,"manifest":"` + Checksum(nil) + `","commit_time":"2026-01-01T00:00:00Z"}`,
		"no manifest": `{"version":1,"phase":"publish","gen":9,"manifest":"` + Checksum(nil) + `","commit_time":"2026-01-01T00:00:00Z"}`,
		"other sum":   `{"version":1,"phase":"publish","gen":1,"manifest":"` + Checksum(nil) + `","commit_time":"2026-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			b.apply(s, plan("p", file("/etc/kubernetes/a", "1")))
			before := b.look()
			if err := os.WriteFile(filepath.Join(b.o.Dir, journalName), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := s.Recover()
			if exitOf(err) != fault.NeedsPerson {
				t.Fatalf("got code %q: %v; want a person", exitOf(err), err)
			}
			if _, err := s.Begin(plan("p2", file("/etc/kubernetes/a", "2"))); err == nil {
				t.Error("a commit began on a damaged journal")
			}
			if !reflect.DeepEqual(before, b.look()) {
				t.Error("something changed")
			}
			if name == "newer" && !strings.Contains(err.Error(), "newer version") {
				t.Error(err)
			}
		})
	}
}

// A content of the generation gone back to that has rotted is found before anything is touched.
func TestDamagedContent(t *testing.T) {
	b := newBox(t)
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
	b.apply(s, plan("p2", file("/etc/kubernetes/a", "2")))
	p := filepath.Join(b.o.Dir, "generations/1")
	pack, err := s.pack(1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(p, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("x"), pack.offset(pack.findContent(Checksum([]byte("1")))))
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	before := b.look()
	if _, err := s.Rollback(2, 1, "unhealthy", false); err == nil || !strings.Contains(err.Error(), p) {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, b.look()) {
		t.Error("something changed")
	}
}

// A full disk does not keep anybody from going back: space was set aside for that. It is full at every write, or at
// the last.
func TestGoingBackOnAFullDisk(t *testing.T) {
	for _, where := range []string{"", journalName, heldName} {
		t.Run("write of "+where, func(t *testing.T) { goBackOnAFullDisk(t, where) })
	}
}

func goBackOnAFullDisk(t *testing.T, where string) {
	b := newBox(t)
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
	b.apply(s, plan("p2", file("/etc/kubernetes/a", "2")))
	s.Close()
	full := true
	b.o.Fault = func(op, p string) error {
		if op == opTruncate && filepath.Base(p) == lockName {
			full = false
		}
		if full && op == opWrite && strings.Contains(p, where) {
			return unix.ENOSPC
		}
		return nil
	}
	s = b.open()
	if _, err := apply(
		s,
		plan("p3", file("/etc/kubernetes/a", "3")),
	); where != heldName && !errors.Is(err, unix.ENOSPC) ||
		!full {
		t.Fatal("a commit used what is set aside for going back:", err)
	}
	if err := s.Pin(1, "by hand"); err != nil { // as going back by hand does first
		t.Fatal(err)
	}
	cur, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback(cur.Gen, 1, "unhealthy", false); err != nil {
		t.Fatal(err)
	}
	if b.read("/etc/kubernetes/a") != "1" {
		t.Error(b.read("/etc/kubernetes/a"))
	}
	b.o.Fault = nil
	b.apply(s, plan("p3", file("/etc/kubernetes/a", "3")))
	if i, err := os.Stat(filepath.Join(b.o.Dir, lockName)); err != nil || i.Size() < ballastMin {
		t.Error("nothing is reserved again:", err)
	}
}

func TestErrorsName(t *testing.T) {
	err := wrap(fault.CannotWrite, "rename", "/etc/a", fmt.Errorf("x: %w", unix.EROFS))
	if got := err.Error(); !strings.Contains(got, "rename /etc/a") || !strings.Contains(got, "ReadWritePaths=") {
		t.Error(got)
	}
	if again := wrap(fault.NeedsPerson, "other", "/b", err); again != err {
		t.Error("wrapped twice:", again)
	}
	if exitOf(afterCommit(err)) != fault.Interrupted || exitOf(err) != fault.CannotWrite {
		t.Error("class after commit")
	}
}
