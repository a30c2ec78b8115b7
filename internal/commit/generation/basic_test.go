package generation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

func TestFirstGeneration(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "old a", 0o640)
	s := b.open()
	if j, err := s.Recover(); j != nil || err != nil {
		t.Fatalf("Recover without a commit: got %v %v, want nothing", j, err)
	}
	p := plan(
		"p1",
		file("/etc/kubernetes/a", "new a"),
		with(file("/etc/kubernetes/pki/b", "new b"), func(t *Target) { t.Secret, t.Mode = true, Keep }),
	)
	tx, err := s.Begin(p)
	if err != nil {
		t.Fatal(err)
	}
	if b.read("/etc/kubernetes/a") != "old a" || b.read("/etc/kubernetes/pki/b") != "absent" {
		t.Fatal("Begin touched a target")
	}
	n, err := tx.Commit()
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if b.read("/etc/kubernetes/a") != "old a" {
		t.Fatal("Commit touched a target")
	}
	if j, _ := s.Journal(); j == nil || j.Phase != PhasePublish {
		t.Fatalf("journal after Commit: got %+v, want phase publish", j)
	}
	if err := tx.Publish(); err != nil {
		t.Fatal(err)
	}
	j, err := s.Journal()
	if err != nil || j.Phase != PhaseVerify || j.Gen != 1 || j.Tries != 1 || j.BootID != "boot-1" || j.CommitMono == 0 {
		t.Fatalf("journal after Publish: got %+v %v, want phase verify", j, err)
	}
	if b.read("/etc/kubernetes/a") != "new a" || b.read("/etc/kubernetes/pki/b") != "new b" {
		t.Fatal("targets are not new")
	}
	for p, want := range map[string]os.FileMode{"/etc/kubernetes/a": 0o644, "/etc/kubernetes/pki/b": 0o600, "/etc/kubernetes/pki": os.ModeDir | 0o755, "/var/lib/prelet": os.ModeDir | 0o700} {
		if i, err := os.Lstat(b.path(p)); err != nil || i.Mode() != want {
			t.Errorf("%s: %v, want %v (%v)", p, i.Mode(), want, err)
		}
	}
	if _, ok := s.LastGood(); ok {
		t.Error("good before it was judged")
	}
	if err := s.Good(1, []byte(`{"ok":true}`)); err != nil {
		t.Fatal(err)
	}
	if j, _ := s.Journal(); j != nil {
		t.Errorf("journal after Good: got %+v, want none", j)
	}
	if n, ok := s.LastGood(); n != 1 || !ok {
		t.Error("not the last good", n, ok)
	}
	for name, want := range map[string]string{"plan.json": `{"id":"p1"}`, "report.json": `{"ok":true}`} {
		if got, err := s.Blob(1, name); err != nil || string(got) != want {
			t.Errorf("%s: got %q %v, want %s", name, got, err, want)
		}
	}
	if got, err := s.Content(Checksum([]byte("old a"))); err != nil || string(got) != "old a" {
		t.Errorf("old content: got %q %v, want old a", got, err)
	}
	if _, err := s.Content(Checksum([]byte("never"))); !errors.Is(err, unix.ENOENT) {
		t.Errorf("unknown content: got %v, want ENOENT", err)
	}
	if l := b.litter(); l != nil {
		t.Error("left behind:", l)
	}
	for _, p := range []string{"generations/1", "generations/1.status.json"} {
		if i, err := os.Lstat(filepath.Join(b.o.Dir, p)); err != nil || i.Mode() != 0o600 {
			t.Errorf("%s: got %v %v, want mode 0600", p, i, err)
		}
	}
}

// Nothing to do means that no operation that could change anything is even tried.
func TestNothingToDoWritesNothing(t *testing.T) {
	b := newBox(t)
	s := b.open()
	p := plan("p1", file("/etc/kubernetes/a", "a"), folderTarget("/etc/kubernetes/d"))
	b.apply(s, p)
	if err := s.Good(1, nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	before := b.look()
	k := &killAt{at: 1}
	b.o.Fault = k.hook
	s = b.open()
	if j, err := s.Recover(); j != nil || err != nil {
		t.Fatal(j, err)
	}
	p.PlanID = "another plan for the same files"
	if _, err := s.Begin(p); !errors.Is(err, ErrNothing) {
		t.Fatal(err)
	}
	if _, err := s.Compare(p); err != nil {
		t.Fatal(err)
	}
	if err := s.Collect(10); err != nil {
		t.Fatal(err)
	}
	if err := s.Good(1, nil); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Differing(); d != nil || err != nil {
		t.Fatal(d, err)
	}
	if k.seen != 0 {
		t.Errorf("got %d operations, want none", k.seen)
	}
	if !reflect.DeepEqual(before, b.look()) {
		t.Error("something changed")
	}
}

func TestForceMakesAGeneration(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "a", 0o644)
	s := b.open()
	p := plan("p1", file("/etc/kubernetes/a", "a"))
	if _, err := s.Begin(p); !errors.Is(err, ErrNothing) {
		t.Fatal(err)
	}
	p.Force = true
	before := b.look()
	if n := b.apply(s, p); n != 1 {
		t.Fatal(n)
	}
	if !reflect.DeepEqual(before, b.look()) {
		t.Error("a target that was equal was replaced")
	}
	if _, err := s.Blob(1, "plan.json"); err != nil {
		t.Error(err)
	}
}

func TestUnlockRelock(t *testing.T) {
	b := newBox(t)
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
	judged, _ := s.Journal()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, b.o)
	if !errors.Is(err, ErrLocked) || exitOf(err) != fault.Locked {
		t.Fatalf("second Open: got %v, want it locked", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second Open: got %v, want %v in it", err, context.DeadlineExceeded)
	}
	if err := s.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(plan("p2", file("/etc/kubernetes/a", "2"))); exitOf(err) != fault.Internal {
		t.Fatalf("Begin without the lock: got %v, want a refusal", err)
	}
	other := b.open() // while the first one watches
	b.apply(other, plan("p2", file("/etc/kubernetes/a", "2")))
	other.Close()
	if err := s.Relock(context.Background()); err != nil {
		t.Fatal(err)
	}
	now, _ := s.Journal()
	if judged.Same(now) || !now.Same(now) {
		t.Error("a superseded journal looks the same")
	}
	if err := s.Good(1, nil); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a late verdict: got %v, want ErrSuperseded", err)
	}
	if _, err := s.Rollback(1, 0, "late", false); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a late rollback: got %v, want ErrSuperseded", err)
	}
	if b.read("/etc/kubernetes/a") != "2" {
		t.Error("the other's file is gone")
	}
}

func TestTries(t *testing.T) {
	b := newBox(t)
	s := b.open()
	if _, err := s.AddTry("boot-1"); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a try without a journal: got %v, want ErrSuperseded", err)
	}
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
	first, _ := s.Journal()
	for _, c := range []struct {
		boot string
		want int
	}{{"boot-1", 1}, {"boot-2", 2}, {"boot-2", 2}, {"boot-3", 3}} {
		if n, err := s.AddTry(c.boot); err != nil || n != c.want {
			t.Errorf("%s: %d %v, want %d", c.boot, n, err, c.want)
		}
	}
	j, _ := s.Journal()
	if !j.Same(first) || j.BootID != "boot-3" || j.CommitMono <= first.CommitMono {
		t.Errorf("journal: got %+v after %+v, want the clock of the new boot", j, first)
	}
}

func TestHoldAndPin(t *testing.T) {
	b := newBox(t)
	s := b.open()
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if err := s.Hold("p1", "crash loop"); err != nil {
		t.Fatal(err)
	}
	if err := s.Pin(3, "by hand"); err != nil {
		t.Fatal(err)
	}
	ro, err := OpenReadOnly(b.o)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if why, ok := ro.Held("p1"); why != "crash loop" || !ok {
		t.Error(why, ok)
	}
	if _, ok := ro.Held("p2"); ok {
		t.Error("p2 is held")
	}
	if n, why, ok := ro.Pinned(); n != 3 || why != "by hand" || !ok {
		t.Error(n, why, ok)
	}
	if err := ro.Hold("p3", "x"); exitOf(err) != fault.Internal {
		t.Error("a reader wrote:", err)
	}
	if err := os.WriteFile(filepath.Join(b.o.Dir, heldName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if why, ok := s.Held("anything"); !ok || !strings.Contains(why, "--release") {
		t.Error("a damaged list holds nothing:", why)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if all, err := s.HeldAll(); len(all) != 0 || err != nil {
		t.Error(all, err)
	}
	if _, _, ok := s.Pinned(); ok {
		t.Error("still pinned")
	}
}

func TestReadOnlyWithoutStateFolder(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "a", 0o600)
	s, err := OpenReadOnly(b.o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if l, err := s.List(); len(l) != 0 || err != nil {
		t.Error(l, err)
	}
	if i, err := s.Current(); i != nil || err != nil {
		t.Error(i, err)
	}
	c, err := s.Compare(plan("p", file("/etc/kubernetes/a", "b"), file("/etc/kubernetes/c", "c")))
	if err != nil || !c.Changed || c.Entries[0].Action != ActionUpdate || c.Entries[1].Action != ActionCreate {
		t.Errorf("Compare: got %+v %v, want an update of a and a new c", c, err)
	}
	if _, err := os.Lstat(b.o.Dir); !os.IsNotExist(err) {
		t.Error("a reader made the state folder")
	}
}

// Modes are those that were declared, whatever the umask of who runs us.
func TestModesIgnoreTheUmask(t *testing.T) {
	b := newBox(t)
	defer unix.Umask(unix.Umask(0o077))
	s := b.open()
	b.apply(s, plan("p", with(folderTarget("/etc/kubernetes/d"), func(t *Target) { t.Mode = 0o775 }),
		with(file("/etc/kubernetes/d/x/f", "f"), func(t *Target) { t.Mode = 0o666 })))
	for p, want := range map[string]os.FileMode{"d": os.ModeDir | 0o775, "d/x": os.ModeDir | 0o755, "d/x/f": 0o666} {
		if i, err := os.Lstat(b.path("/etc/kubernetes/" + p)); err != nil || i.Mode() != want {
			t.Errorf("%s: %v %v, want %v", p, i.Mode(), err, want)
		}
	}
}

// An attribute that is larger than what is asked for first is kept as well.
func TestLargeAttribute(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "old", 0o644)
	value := strings.Repeat("x", 3000)
	if err := unix.Setxattr(b.path("/etc/kubernetes/a"), "user.large", []byte(value), 0); err != nil {
		t.Skip("needs a TMPDIR whose file system has user attributes: ", err)
	}
	s := b.open()
	b.apply(s, plan("p", file("/etc/kubernetes/a", "new")))
	if st, _, err := s.Observe("/etc/kubernetes/a"); err != nil || string(st.Xattrs["user.large"]) != value {
		t.Errorf("attribute: got %d bytes, %v; want all", len(st.Xattrs["user.large"]), err)
	}
}

// A plan and its recording may be larger than one file: they have the contents of several, escaped.
func TestLargeBlob(t *testing.T) {
	b := newBox(t)
	s := b.open()
	p := plan("p1", file("/etc/a", "a"))
	large := strings.Repeat("<", MaxContent+MaxContent/2)
	p.Blobs["plan.json"] = []byte(large)
	tx, err := s.Begin(p)
	if err != nil {
		t.Fatal(err)
	}
	gen, err := tx.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Publish(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Blob(gen, "plan.json"); err != nil || string(got) != large {
		t.Errorf("got %d bytes and %v; want %d", len(got), err, len(large))
	}

	p = plan("p2", file("/etc/a", "b"))
	p.Blobs["plan.json"] = make([]byte, maxBlob+1)
	if _, err := s.Begin(p); err == nil || exitOf(err) == fault.Internal {
		t.Errorf("more than a blob may have: got %v; want an error that is not prelet's own", err)
	}
}

// A link of an image must not lead the state folder to the machine that works on the image.
func TestStateFolderOutsideOfRoot(t *testing.T) {
	outside := t.TempDir()
	for _, link := range []string{"var", "var/lib", "var/lib/prelet"} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
		o := Options{Root: root, Dir: filepath.Join(root, "var/lib/prelet")}
		if s, err := Open(t.Context(), o); err == nil {
			_ = s.Close()
			t.Errorf("%s: got no error; want that the link is refused", link)
		}
		if s, err := OpenReadOnly(o); err == nil {
			_ = s.Close()
			t.Errorf("%s, to read: got no error; want that the link is refused", link)
		}
		if names, _ := os.ReadDir(outside); len(names) > 0 {
			t.Errorf("%s: got %v outside of the root; want nothing", link, names)
		}
	}
}
