package generation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/sample"
)

// sweepWorld is a box on which a first generation is good and a next one is proposed.
type sweepWorld struct {
	*box
	next    Proposal
	scratch string
}

// sweepBox makes random targets: created, changed, removed, dropped, with other modes, in folders that are new.
func sweepBox(t *testing.T, seed uint64) *sweepWorld {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	b := newBox(t)
	modes := []int{0o600, 0o644, 0o640, 0o444}
	var first, next []Target
	for i := range 5 {
		p := fmt.Sprintf("/etc/kubernetes/f%d", i)
		parents := r.IntN(3) == 0
		if parents {
			p = fmt.Sprintf("/etc/kubernetes/d%d/e/f%d", r.IntN(2), i)
		}
		mk := func(what string) Target {
			return Target{
				Path:    p,
				Kind:    File,
				Content: fmt.Appendf(nil, "%s %d %d", what, i, r.IntN(100)),
				Mode:    modes[r.IntN(len(modes))],
				UID:     Keep,
				GID:     Keep,
				Secret:  r.IntN(4) == 0,
			}
		}
		if r.IntN(2) == 0 && !parents {
			b.write(p, fmt.Sprint("before ", i), 0o644)
		}
		if r.IntN(3) > 0 {
			first = append(first, mk("first"))
		}
		switch n := r.IntN(6); {
		case n == 0:
			next = append(next, Target{Path: p, Kind: Absent})
		case n > 1:
			next = append(next, mk("next"))
		}
	}
	first = append(first, folderTarget("/etc/kubernetes/folder1"), file("/etc/kubernetes/always", "first"))
	next = append(next, with(folderTarget("/etc/kubernetes/folder2"), func(t *Target) { t.Mode = 0o750 }),
		file("/etc/kubernetes/folder2/inside", "x"), file("/etc/kubernetes/always", "next"))
	s := b.open()
	b.apply(s, plan("first", first...))
	must(t, s.Good(1, nil))
	s.Close()
	return &sweepWorld{box: b, next: plan("next", next...), scratch: memory(t)}
}

// openHooked opens the store with a fault hook that may be set later.
func (b *box) openHooked() (*Store, *func(op, p string) error) {
	b.t.Helper()
	hook := new(func(op, p string) error)
	o := b.o
	o.Fault = func(op, p string) error {
		if *hook != nil {
			return (*hook)(op, p)
		}
		return nil
	}
	s, err := Open(context.Background(), o)
	must(b.t, err)
	return s, hook
}

func (b *box) recover(t *testing.T) *Journal {
	t.Helper()
	s := b.open()
	defer s.Close()
	j, err := s.Recover()
	must(t, err)
	return j
}

// lookTargets is look without the times of folders: a folder that contained a temporary has another time, while its
// targets are unchanged.
func (b *box) lookTargets(like map[string]inode) map[string]inode {
	now := b.look()
	for p, n := range now {
		if was, ok := like[p]; ok && n.mode.IsDir() && was.mode.IsDir() {
			n.mtime = was.mtime
			now[p] = n
		}
	}
	return now
}

// copyTo copies the whole box, hard links in the state folder included.
func (b *box) copyTo(t *testing.T, dir string) *box {
	t.Helper()
	root := filepath.Join(dir, "root")
	must(t, os.RemoveAll(root))
	if out, err := exec.Command("cp", "-a", b.root, root).CombinedOutput(); err != nil {
		t.Fatalf("cp: got %v %s, want no error", err, out)
	}
	return boxAt(t, root)
}

// step is something that a caller does in one go, and that may be interrupted anywhere.
type step struct {
	name string
	do   func(s *Store, next Proposal) error
	new  func(t *testing.T, b *box, next Proposal) map[string]node
}

// kept is what a rollback to the state before prelet keeps.
var kept = map[string][]byte{"activation.json": []byte("{}")}

func steps() []step {
	commit := func(s *Store, p Proposal) error { _, err := apply(s, p); return err }
	back := func(s *Store, _ Proposal) error { _, err := s.Rollback(1, 0, "unhealthy", true, kept); return err }
	after := func(do func(s *Store, p Proposal) error) func(*testing.T, *box, Proposal) map[string]node {
		return func(t *testing.T, b *box, p Proposal) map[string]node {
			c := b.copyTo(t, memory(t))
			s := c.open()
			defer s.Close()
			must(t, do(s, p))
			return nodes(c.look())
		}
	}
	unjudged := func(s *Store, p Proposal) error {
		p.Unjudged = []byte("{}")
		return commit(s, p)
	}
	return []step{
		{"commit", commit, after(commit)},
		{"rollback", back, after(back)},
		{"unjudged", unjudged, after(unjudged)},
	}
}

// backUnheld goes back without holding the plan, so that no other file is made durable at the end.
func backUnheld() step {
	st := steps()[1]
	st.name = "rollback unheld "
	st.do = func(s *Store, _ Proposal) error { _, err := s.Rollback(1, 0, "unhealthy", false, kept); return err }
	return st
}

// backToJudge goes back to what awaits a verdict then.
func backToJudge() step {
	st := steps()[1]
	st.name = "rollback to judge "
	st.do = func(s *Store, _ Proposal) error {
		_, err := s.RollbackToJudge(1, 0, "unhealthy", true, kept)
		return err
	}
	return st
}

// TestKilledAnywhere stops the writer at a sample of its operations, and, after some of them, recovery at every one of
// its own (I1, I2, I4–I8).
func TestKilledAnywhere(t *testing.T) {
	chosen, seeds := sample.New(t), 1
	if sample.IsFull() {
		seeds = 20
	}
	for seed := range seeds {
		for _, st := range steps() {
			t.Run(fmt.Sprint(st.name, seed), func(t *testing.T) {
				w := sweepBox(t, uint64(seed))
				old := nodes(w.look())
				want := st.new(t, w.box, w.next)
				if same(old, want) {
					t.Fatal("the step changes nothing")
				}
				ends := map[string]int{}
				first, step := chosen.OneIn(4, st.name)
				for k, done := 1+first, false; !done; k += step {
					done = killedAt(t, w, st, k, chosen.Has(3, st.name, k), old, want, ends)
				}
				if ends["old"] == 0 || ends["new"] == 0 {
					t.Errorf("got %v, want kills on both sides of the commit", ends)
				}
				t.Log(ends)
			})
		}
	}
}

func killedAt(
	t *testing.T,
	w *sweepWorld,
	st step,
	k int,
	twice bool,
	old, want map[string]node,
	ends map[string]int,
) (done bool) {
	b := w.copyTo(t, w.scratch)
	start := b.look()
	s, hook := b.openHooked()
	kill := &killAt{at: k}
	committed, moved := false, true
	*hook = func(op, p string) error {
		if err := kill.hook(op, p); err != nil {
			return err
		}
		if !moved { // the operation before this one cannot be seen by others
			moved = visible(op)
			return nil
		}
		moved = visible(op)
		j, _ := s.Journal() // what a reader sees at this instant
		committed = committed || j != nil
		if !committed && !untouched(start, b.lookTargets(start)) {
			t.Fatalf("k=%d: before %s %s: a target changed, want none before the commit (I8)", k, op, p)
		}
		eachIsOldOrNew(t, b, old, want)
		return nil
	}
	err := st.do(s, w.next)
	*hook = nil
	if err == nil {
		s.Close()
		if !same(want, nodes(b.look())) {
			t.Fatalf("k=%d: got no error and old targets, want the new ones (I3)", k)
		}
		return true
	}
	if !errors.Is(err, errKilled) {
		t.Fatalf("k=%d: got %v, want no error", k, err)
	}
	s.Close()
	// Recovery is killed as well, at one place after another, each time on top of the last (I5).
	for depth := 1; twice; depth++ {
		s, hook := b.openHooked()
		*hook = (&killAt{at: depth}).hook
		_, err := s.Recover()
		s.Close()
		if err == nil {
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("k=%d, recovery killed at %d: got %v, want it killed or no error", k, depth, err)
		}
		eachIsOldOrNew(t, b, old, want)
	}
	j := b.recover(t)
	before := b.look()
	if again := b.recover(t); !reflect.DeepEqual(j, again) {
		t.Fatalf("k=%d: a second recovery: got %+v, want %+v (I5)", k, again, j)
	}
	if !reflect.DeepEqual(before, b.look()) {
		t.Fatalf("k=%d: a second recovery changed something, want nothing (I5)", k)
	}
	if l := b.litter(); l != nil {
		t.Fatalf("k=%d: left behind: got %v, want nothing (I6)", k, l)
	}
	switch now := nodes(before); {
	case same(now, old):
		ends["old"]++
		if j != nil {
			t.Fatalf("k=%d: old targets: got a journal in %s, want none", k, j.Phase)
		}
		if committed {
			t.Fatalf("k=%d: committed: got old targets after recovery, want the new ones", k)
		}
	case same(now, want):
		ends["new"]++
		if st.name == "commit" && (j == nil || j.Phase != PhaseVerify || j.Gen != 2) {
			t.Fatalf("k=%d: new targets: got journal %+v, want it to await a verdict", k, j)
		}
		if st.name == "unjudged" {
			s := b.open()
			if in, err := s.Current(); err != nil || j != nil || in.Gen != 2 || in.Status != StatusGood {
				t.Fatalf("k=%d: new targets without a verdict: got %+v, %v, journal %+v; want it good", k, in, err, j)
			}
			s.Close()
		}
		if st.name == "rollback" {
			s := b.open()
			if _, ok := s.Held("first"); !ok || j != nil {
				t.Fatalf("k=%d: after a rollback: got plan held %v, journal %+v; want it held and no journal", k, ok, j)
			}
			s.Close()
		}
	default:
		t.Fatalf("k=%d: a mixture (I1)\nnow  %v\nold  %v\nnew  %v", k, now, old, want)
	}
	b.goesOn(t)
	return false
}

// goesOn shows that the next run works on what recovery left.
func (b *box) goesOn(t *testing.T) {
	t.Helper()
	s := b.open()
	defer s.Close()
	b.apply(s, plan("after", file("/etc/kubernetes/always", "after")))
	if b.read("/etc/kubernetes/always") != "after" {
		t.Fatal("the next commit did not publish")
	}
}

// visible says whether an operation may change what others see of a target.
func visible(op string) bool {
	return op == opRename || op == opUnlink || op == opRmdir || op == opChmod || op == opChown || op == opMkdir
}

// untouched says whether everything of start is as it was: inode, times, bytes. What is new are temporaries and new
// folders.
func untouched(start, now map[string]inode) bool {
	for p, n := range start {
		if now[p] != n {
			return false
		}
	}
	return true
}

// eachIsOldOrNew checks I2, and I7 for files that are not targets: each single file has its own old or new content, at
// every instant.
func eachIsOldOrNew(t *testing.T, b *box, old, want map[string]node) {
	t.Helper()
	now := nodes(b.look())
	for p, n := range now {
		if strings.Contains(p, "/.prelet-") || n.mode.IsDir() {
			continue
		}
		o, isOld := old[p]
		w, isNew := want[p]
		if !(isOld && n == o) && !(isNew && n == w) {
			t.Fatalf("%s: got %+v, want its old or its new state (I2)", p, n)
		}
	}
	for p := range old {
		if _, there := now[p]; !there {
			if _, stays := want[p]; stays {
				t.Fatalf("%s: got no file, want its old or its new state (I2)", p)
			}
		}
	}
}
