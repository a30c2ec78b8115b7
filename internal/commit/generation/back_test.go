package generation

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// actions of a comparison, by path.
func actions(es []Entry) map[string]Action {
	m := map[string]Action{}
	for _, e := range es {
		m[e.Path] = e.Action
	}
	return m
}

func TestGoingBackOverSeveral(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "original a", 0o640)
	before := nodes(b.look())
	s := b.open()
	one := plan("p1", file("/etc/kubernetes/a", "a1"), file("/etc/kubernetes/b", "b1"))
	b.apply(s, one)
	if err := s.Good(1, nil); err != nil {
		t.Fatal(err)
	}
	first := nodes(b.look())
	b.apply(s, plan("p2", file("/etc/kubernetes/a", "a2"), file("/etc/kubernetes/x/y/c", "c2")))
	if b.read("/etc/kubernetes/b") != "absent" {
		t.Error("what the site no longer declares is still there")
	}
	b.apply(s, plan("p3", file("/etc/kubernetes/a", "a3"), file("/etc/kubernetes/x/y/c", "c3")))

	n, err := s.Rollback(3, 1, "crash loop", true)
	if err != nil || n != 4 {
		t.Fatal(n, err)
	}
	if !same(first, nodes(b.look())) {
		t.Errorf("got %v, want the files of generation 1", nodes(b.look()))
	}
	if why, ok := s.Held("p3"); !ok || why != "crash loop" {
		t.Error("the plan that was left is not held:", why, ok)
	}
	if j, err := s.Journal(); j != nil || err != nil {
		t.Error("a journal is left:", j, err)
	}
	if got, err := s.Blob(4, "plan.json"); err != nil || string(got) != `{"id":"p1"}` {
		t.Errorf("plan.json of the rollback: got %s %v, want that of p1", got, err)
	}
	if g, ok := s.LastGood(); g != 1 || !ok {
		t.Error("last good:", g, ok)
	}
	if _, err := s.Begin(one); !errors.Is(err, ErrNothing) {
		t.Error("the plan gone back to is not in place:", err)
	}
	if err := s.Good(4, nil); err != nil {
		t.Fatal(err)
	}
	if g, _ := s.LastGood(); g != 4 {
		t.Error("last good:", g)
	}

	n, err = s.Rollback(4, 0, "by hand", false)
	if err != nil || n != 5 {
		t.Fatal(n, err)
	}
	if !same(before, nodes(b.look())) {
		t.Errorf("not as before prelet: %v, want %v", nodes(b.look()), before)
	}
	if g, _ := s.LastGood(); g != 1 {
		t.Error("last good:", g)
	}
	var statuses []Status
	l, err := s.List()
	for i, g := range l {
		if g.Gen != i+1 {
			t.Error("numbers do not only grow:", g.Gen)
		}
		statuses = append(statuses, g.Status)
	}
	want := []Status{StatusGood, StatusSuperseded, StatusRolledBack, StatusRolledBack, StatusRestored}
	if err != nil || len(l) != 5 || l[3].Restores != 1 || l[4].Restores != 0 || l[0].Restores != -1 {
		t.Errorf("List: got %+v %v, want five generations with what they restore", l, err)
	}
	for i := range want {
		if statuses[i] != want[i] {
			t.Errorf("statuses %v, want %v", statuses, want)
			break
		}
	}
	if l := b.litter(); l != nil {
		t.Error("left behind:", l)
	}
}

func TestWhatIsNoLongerDeclared(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/restored", "mine", 0o600)
	b.write("/etc/kubernetes/edited", "mine too", 0o644)
	s := b.open()
	b.apply(s, plan("p1",
		file("/etc/kubernetes/restored", "theirs"),
		file("/etc/kubernetes/edited", "theirs"),
		file("/etc/kubernetes/removed", "x"),
		with(file("/etc/kubernetes/once", "written once"), func(t *Target) { t.CreateOnly = true }),
		folderTarget("/etc/kubernetes/full"), folderTarget("/etc/kubernetes/empty"),
	))
	b.write("/etc/kubernetes/edited", "edited by a person", 0o644)
	b.write("/etc/kubernetes/full/file", "of a person", 0o644)
	next := plan("p2", file("/etc/kubernetes/other", "y"))
	c, err := s.Compare(next)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]Action{
		"restored": ActionRestore, "edited": ActionKeep, "removed": ActionDelete, "once": ActionKeep, "full": ActionDelete, "empty": ActionDelete, "other": ActionCreate,
	} {
		if got := actions(c.Entries)["/etc/kubernetes/"+p]; got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	b.apply(s, next)
	for p, want := range map[string]string{
		"restored": "mine", "edited": "edited by a person", "removed": "absent", "once": "written once", "full/file": "of a person", "other": "y",
	} {
		if got := b.read("/etc/kubernetes/" + p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	if _, err := os.Lstat(b.path("/etc/kubernetes/empty")); !os.IsNotExist(err) {
		t.Error("an empty folder of ours is still there")
	}
	if i, _ := os.Lstat(b.path("/etc/kubernetes/restored")); i.Mode() != 0o600 {
		t.Error("mode was not put back:", i.Mode())
	}
	if c, err = s.Compare(next); err != nil || c.Changed || len(c.Entries) != 1 {
		t.Errorf("what is no longer managed: got %+v %v, want no entry and no change", c, err)
	}
}

func TestDriftKeepsTheBytes(t *testing.T) {
	b := newBox(t)
	s := b.open()
	p := plan("p1", file("/etc/kubernetes/a", "planned"))
	b.apply(s, p)
	b.write("/etc/kubernetes/a", "by hand", 0o644)
	if d, err := s.Differing(); err != nil || len(d) != 1 {
		t.Error(d, err)
	}
	c, err := s.Compare(p)
	if err != nil || !c.Entries[0].Drift || c.Entries[0].Action != ActionUpdate {
		t.Fatalf("Compare: got %+v %v, want the drift and no error", c.Entries, err)
	}
	n := b.apply(s, p)
	if b.read("/etc/kubernetes/a") != "planned" {
		t.Error("drift stays")
	}
	if got, err := s.contentOf(n, Checksum([]byte("by hand"))); err != nil || string(got) != "by hand" {
		t.Errorf("got %q %v, want the edited bytes", got, err)
	}
	if st, orig, ok, err := s.Original("/etc/kubernetes/a"); st.Kind != Absent || orig != nil || !ok || err != nil {
		t.Error("the original is lost over a generation:", st, ok, err)
	}
}

func TestCreateOnlyIsNeverOverwritten(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/once", "was there", 0o644)
	s := b.open()
	once := with(file("/etc/kubernetes/once", "from the site"), func(t *Target) { t.CreateOnly = true })
	before := b.look()["/etc/kubernetes/once"]
	b.apply(s, plan("p1", once, file("/etc/kubernetes/a", "1")))
	if now := b.look()["/etc/kubernetes/once"]; now != before {
		t.Error("replaced:", now)
	}
	b.write("/etc/kubernetes/once", "edited", 0o644)
	if _, err := s.Begin(plan("p1", once, file("/etc/kubernetes/a", "1"))); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	if _, err := s.Rollback(1, 0, "by hand", false); err != nil {
		t.Fatal(err)
	}
	if got := b.read("/etc/kubernetes/once"); got != "edited" {
		t.Error(got)
	}
}

// A rollback restores metadata too, and removes a folder that prelet made only if it is empty.
func TestGoingBackKeepsModesAndForeignFiles(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "same bytes", 0o600)
	if err := os.Mkdir(b.path("/etc/kubernetes/dir"), 0o750); err != nil {
		t.Fatal(err)
	}
	xattrs := unix.Setxattr(b.path("/etc/kubernetes/a"), "user.note", []byte("keep me"), 0) == nil
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "same bytes"), folderTarget("/etc/kubernetes/dir"),
		file("/etc/kubernetes/new/x", "x")))
	for p, want := range map[string]os.FileMode{"a": 0o644, "dir": os.ModeDir | 0o755} {
		if i, err := os.Lstat(b.path("/etc/kubernetes/" + p)); err != nil || i.Mode() != want {
			t.Errorf("%s: got %v %v, want %v", p, i.Mode(), err, want)
		}
	}
	b.write("/etc/kubernetes/new/foreign", "f", 0o644)
	if _, err := s.Rollback(1, 0, "by hand", false); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{"a": 0o600, "dir": os.ModeDir | 0o750} {
		if i, err := os.Lstat(b.path("/etc/kubernetes/" + p)); err != nil || i.Mode() != want {
			t.Errorf("%s: got %v %v, want %v", p, i.Mode(), err, want)
		}
	}
	if b.read("/etc/kubernetes/new/x") != "absent" || b.read("/etc/kubernetes/new/foreign") != "f" {
		t.Error("x or foreign is wrong")
	}
	if xattrs {
		buf := make([]byte, 64)
		n, err := unix.Getxattr(b.path("/etc/kubernetes/a"), "user.note", buf)
		if err != nil || string(buf[:n]) != "keep me" {
			t.Errorf("attribute: got %q %v, want keep me", buf[:max(n, 0)], err)
		}
	}
}

func TestRetire(t *testing.T) {
	b := newBox(t)
	s := b.open()
	boot := with(file("/etc/kubernetes/bootstrap", "token"), func(t *Target) { t.Secret, t.Mode = true, Keep })
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1"), boot))
	if err := s.Retire(1, "/etc/kubernetes/unknown"); exitOf(err) != fault.Internal {
		t.Error(err)
	}
	if err := s.Retire(1, "/etc/kubernetes/bootstrap"); err != nil {
		t.Fatal(err)
	}
	if err := s.Good(1, nil); err != nil {
		t.Fatal(err)
	}
	if b.read("/etc/kubernetes/bootstrap") != "absent" {
		t.Fatal("it is still there")
	}
	// A joined node's plan is silent about it: nothing to do, and it does not come back.
	k := &killAt{at: 1}
	s.Close()
	b.o.Fault = k.hook
	s = b.open()
	if _, err := s.Begin(plan("p1", file("/etc/kubernetes/a", "1"))); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	if err := s.Retire(1, "/etc/kubernetes/bootstrap"); err != nil || k.seen != 0 {
		t.Error("retired twice:", err, k.seen)
	}
	if d, err := s.Differing(); d != nil || err != nil {
		t.Error(d, err)
	}
	s.Close()
	b.o.Fault = nil
	s = b.open()
	b.apply(s, plan("p2", file("/etc/kubernetes/a", "2")))
	if _, err := s.Rollback(2, 1, "unhealthy", false); err != nil {
		t.Fatal(err)
	}
	if b.read("/etc/kubernetes/bootstrap") != "absent" || b.read("/etc/kubernetes/a") != "1" {
		t.Error("going back brought the token back, or not the file")
	}
}

func TestCollect(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "original", 0o644)
	s := b.open()
	for i := 1; i <= 8; i++ {
		b.apply(s, plan("p"+itoa(i), file("/etc/kubernetes/a", "content "+itoa(i))))
		if i == 2 {
			if err := s.Good(2, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Collect(3); err != nil {
		t.Fatal(err)
	}
	var got []int
	l, err := s.List()
	for _, g := range l {
		got = append(got, g.Gen)
	}
	if err != nil || len(got) != 4 || got[0] != 2 || got[1] != 6 || got[3] != 8 {
		t.Fatal(got, err)
	}
	if _, err := s.Content(Checksum([]byte("content 4"))); err == nil {
		t.Error("content of a collected generation is still there")
	}
	if _, err := s.Blob(4, "plan.json"); !errors.Is(err, ErrNoGeneration) {
		t.Error(err)
	}
	// What was there before prelet outlives the generation that found it.
	if _, c, ok, err := s.Original("/etc/kubernetes/a"); string(c) != "original" || !ok || err != nil {
		t.Errorf("Original: got %q %v %v, want it kept", c, ok, err)
	}
	if _, err := s.Rollback(8, 2, "unhealthy", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback(9, 0, "by hand", false); err != nil || b.read("/etc/kubernetes/a") != "original" {
		t.Fatal(err, b.read("/etc/kubernetes/a"))
	}
	if n := b.apply(s, plan("p11", file("/etc/kubernetes/a", "x"))); n != 11 {
		t.Error("a number came again:", n)
	}
}

// A rollback may await a verdict. Until then the previous plan counts as held; a good verdict holds it, a bad one
// releases it.
func TestRollbackToJudge(t *testing.T) {
	setUp := func(t *testing.T) (*box, *Store) {
		b := newBox(t)
		s := b.open()
		b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
		if err := s.Good(1, nil); err != nil {
			t.Fatal(err)
		}
		b.apply(s, plan("p2", file("/etc/kubernetes/a", "2")))
		if n, err := s.RollbackToJudge(2, 1, "crash loop", true); err != nil || n != 3 {
			t.Fatal(n, err)
		}
		j, err := s.Journal()
		if err != nil || j == nil || j.Phase != PhaseVerify || j.Gen != 3 || j.From != 2 || j.To != 1 || j.Tries != 1 ||
			j.CommitMono == 0 {
			t.Fatalf("journal: got %+v %v, want it to await a verdict", j, err)
		}
		if why, ok := s.Held("p2"); !ok || why != "crash loop" || b.read("/etc/kubernetes/a") != "1" {
			t.Error(why, ok, b.read("/etc/kubernetes/a"))
		}
		if _, ok := s.Held("p1"); ok {
			t.Error("the plan in place is held")
		}
		return b, s
	}
	t.Run("good", func(t *testing.T) {
		_, s := setUp(t)
		if err := s.Good(3, nil); err != nil {
			t.Fatal(err)
		}
		all, err := s.HeldAll()
		if n, ok := s.LastGood(); err != nil || all["p2"] != "crash loop" || n != 3 || !ok {
			t.Error(all, n, err)
		}
		if j, err := s.Journal(); j != nil || err != nil {
			t.Error(j, err)
		}
	})
	t.Run("unhealthy", func(t *testing.T) {
		_, s := setUp(t)
		if err := s.MarkUnhealthy(3, "the disk"); err != nil {
			t.Fatal(err)
		}
		cur, err := s.Current()
		if _, held := s.Held("p2"); err != nil || held || cur.Status != StatusRestored || cur.Why != "the disk" {
			t.Errorf("got held %v, %+v, %v; want the plan released, and status %s", held, cur, err, StatusRestored)
		}
		if n, _ := s.LastGood(); n != 1 {
			t.Error("last good:", n)
		}
		if err := s.MarkUnhealthy(3, "again"); !errors.Is(err, ErrSuperseded) {
			t.Error(err)
		}
	})
	t.Run("released", func(t *testing.T) {
		_, s := setUp(t)
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		if err := s.Good(3, nil); err != nil {
			t.Fatal(err)
		}
		if _, held := s.Held("p2"); held {
			t.Error("it is held though somebody let go of it")
		}
	})
	t.Run("superseded", func(t *testing.T) {
		b, s := setUp(t)
		b.apply(s, plan("p4", file("/etc/kubernetes/a", "4")))
		if _, held := s.Held("p2"); held {
			t.Error("a plan is held by a journal that is gone")
		}
	})
	t.Run("superseded by its own contents", func(t *testing.T) {
		b, s := setUp(t)
		b.write("/etc/kubernetes/a", "drift", 0o644)
		b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
		if why, held := s.Held("p2"); !held {
			t.Errorf("held: got %t (%q), want p2 held as before", held, why)
		}
	})
	t.Run("without what somebody made meanwhile", func(t *testing.T) {
		b, s := setUp(t)
		b.apply(s, plan("p4", file("/etc/kubernetes/a", "4")))
		b.write("/var/lib/kubelet/state", "made on 4", 0o600)
		n, err := s.RollbackToJudge(
			4,
			1,
			"unhealthy",
			true,
			"/var/lib/kubelet/state",
			"/etc/kubernetes/a",
			"/var/lib/kubelet/none",
		)
		if err != nil || b.read("/etc/kubernetes/a") != "1" {
			t.Fatal(n, err)
		}
		if st, _, err := s.Observe("/var/lib/kubelet/state"); err != nil || st.Kind != Absent {
			t.Error("it is still there:", st, err)
		}
		b.write("/var/lib/kubelet/state", "made on 1", 0o600)
		b.apply(s, plan("p5", file("/etc/kubernetes/a", "5")))
		if b.read("/var/lib/kubelet/state") != "made on 1" {
			t.Error("what was made after that was touched")
		}
	})
	t.Run("of a generation that did not come by going back", func(t *testing.T) {
		b := newBox(t)
		s := b.open()
		b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
		if err := s.MarkUnhealthy(1, "x"); !errors.Is(err, ErrSuperseded) {
			t.Error(err)
		}
	})
}

// TestReleaseAfterStuckRollback kills a rollback between its renames, lets its recovery need a person once, and judges
// the restored generation as unhealthy: the plan was not the cause, so it must not stay held.
func TestReleaseAfterStuckRollback(t *testing.T) {
	tried := 0
	for at := 1; ; at++ {
		b := newBox(t)
		s := b.open()
		b.apply(s, plan("p1", file("/etc/kubernetes/a", "1"), file("/etc/kubernetes/b", "1")))
		b.apply(s, plan("p2", file("/etc/kubernetes/a", "2"), file("/etc/kubernetes/b", "2")))
		_ = s.Close()

		b.o.Fault = (&killAt{at: at}).hook
		s = b.open()
		_, err := s.RollbackToJudge(2, 1, "unhealthy", true)
		_ = s.Close()
		if err == nil {
			break
		}

		b.o.Fault = nil
		s = b.open()
		j, err := s.Journal()
		if err != nil || j == nil || j.Phase != PhaseRollback || b.read("/etc/kubernetes/b") != "2" {
			_ = s.Close()
			continue
		}
		tried++
		b.write("/etc/kubernetes/b", "of another program", 0o644)
		if _, err := s.Recover(); !isStuck(err) {
			t.Errorf("operation %d: Recover with a foreign file: got %v, want it stuck", at, err)
		}
		if _, held := s.Held("p2"); !held {
			t.Errorf("operation %d: while recovery is stuck: got p2 free, want it held", at)
		}

		b.write("/etc/kubernetes/b", "2", 0o644)
		j, err = s.Recover()
		if err != nil || j == nil {
			t.Fatalf("operation %d: Recover: got %+v, %v; want a journal and no error", at, j, err)
		}
		if err := s.MarkUnhealthy(j.Gen, "the kubelet fails again"); err != nil {
			t.Errorf("operation %d: MarkUnhealthy: got %v, want no error", at, err)
		}
		if why, held := s.Held("p2"); held {
			t.Errorf("operation %d: after MarkUnhealthy: got p2 held (%s), want it free", at, why)
		}
		_ = s.Close()
	}
	if tried == 0 {
		t.Error("got no interrupted rollback, want at least one")
	}
}
