package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// adoptWorld is a node whose files all are those of flipNext("2"), with a state folder that does not say so.
type adoptWorld struct {
	name   string
	make   func(t *testing.T) *box
	gen    int  // that Adopt makes
	before bool // Rollback to 0 is possible afterwards
}

func adoptWorlds() []adoptWorld {
	lay := func(b *box) {
		b.write("/etc/kubernetes/a", "2", 0o644)
		b.write("/etc/kubernetes/pki/b", "2 b", 0o600)
	}
	empty := func(t *testing.T) *box {
		b := newBox(t)
		lay(b)
		return b
	}
	// backup is a node at generation 2 with the state folder that it had at an earlier moment.
	backup := func(stop func(op, p string) error, then func(s *Store) error) func(t *testing.T) *box {
		return func(t *testing.T) *box {
			b := newBox(t)
			s, hook := b.openHooked()
			if err := s.Good(b.apply(s, flipNext("1")), nil); err != nil {
				t.Fatal(err)
			}
			ended := false
			*hook = func(op, p string) error {
				ended = ended || stop != nil && stop(op, p) != nil
				return endIf(ended)
			}
			if then != nil {
				if err := then(s); (err == nil) != (stop == nil) {
					t.Fatal(err)
				}
			}
			s.Close()
			lay(b)
			for _, p := range b.litter() { // is on the disk that was not restored
				if !strings.HasPrefix(p, b.o.Dir) {
					if err := os.Remove(p); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.o.BootID = "boot-2"
			return b
		}
	}
	mid := func(op, p string) error { return endIf(op == opRename && strings.HasSuffix(p, "/b")) }
	next := func(s *Store) error { _, err := apply(s, flipNext("7")); return err }
	return []adoptWorld{
		{"the state folder is lost", empty, 1, false},
		{"an older backup", backup(nil, nil), 2, true},
		{"an older backup that awaits a verdict", backup(nil, next), 3, true},
		{"an older backup in the middle of a publish", backup(mid, next), 3, true},
		{"an older backup in the middle of a way back", backup(mid, func(s *Store) error {
			if err := next(s); err == nil {
				return errors.New("not stopped")
			}
			return errKilled
		}), 3, true},
		{"an older backup with something staged", backup(func(_, p string) error {
			return endIf(strings.HasSuffix(p, journalName+tmpSuffix))
		}, next), 2, true},
	}
}

func TestAdopt(t *testing.T) {
	for _, w := range adoptWorlds() {
		t.Run(w.name, func(t *testing.T) {
			b := w.make(t)
			before := b.look()
			s := b.open()
			_, err := s.Recover()
			var stuck *StuckError
			if err != nil && (!errors.As(err, &stuck) || !stuck.Outdated) {
				t.Fatalf("Recover: got %v, want nothing, or an outdated commit", err)
			}
			c, err := s.Compare(flipNext("2"))
			if err != nil || c.Changed || !c.Adopts {
				t.Fatalf("Compare: got %+v, %v, want it to adopt", c, err)
			}
			if _, err := s.Adopt(flipNext("3")); !errors.Is(err, ErrDiffers) {
				t.Errorf("Adopt of what differs: got %v, want %v", err, ErrDiffers)
			}
			gen, err := s.Adopt(flipNext("2"))
			if err != nil || gen != w.gen {
				t.Fatalf("Adopt: got %d, %v, want %d", gen, err, w.gen)
			}
			if now := b.lookTargets(before); !reflect.DeepEqual(targetsOf(before), targetsOf(now)) {
				t.Errorf("a target was touched:\ngot  %v\nwant %v", now, before)
			}
			j, err := s.Journal()
			if err != nil || j == nil || j.Phase != PhaseVerify || j.Gen != gen || j.Tries != 1 ||
				j.CommitMono != 0 {
				t.Errorf("journal: got %+v, %v, want it to await a verdict, as adopted", j, err)
			}
			cur, err := s.Current()
			if err != nil || cur.Gen != gen || !cur.Adopted || cur.Status != StatusPending || cur.PlanID != "plan 2" {
				t.Errorf("Current: got %+v, %v, want %d adopted and pending", cur, err, gen)
			}
			for _, e := range cur.Entries {
				if e.Action != ActionNone {
					t.Errorf("%s: got action %s, want %s", e.Path, e.Action, ActionNone)
				}
			}
			if d, err := s.Differing(); d != nil || err != nil {
				t.Errorf("Differing: got %v, %v, want none", d, err)
			}
			if err := s.Intact(gen); err != nil {
				t.Errorf("Intact: got %v, want no error", err)
			}
			if _, err := s.Adopt(flipNext("2")); !errors.Is(err, ErrNothing) {
				t.Errorf("Adopt again: got %v, want %v", err, ErrNothing)
			}
			if err := s.Good(gen, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			s.Close()
			b.recover(t)
			if l := b.litter(); l != nil {
				t.Errorf("left behind: got %v, want nothing", l)
			}
			s = b.open()
			if good, ok := s.LastGood(); good != gen || !ok {
				t.Errorf("last good: got %d, %v, want %d", good, ok, gen)
			}
			w.goBack(t, b, s, gen)
		})
	}
}

// targetsOf leaves out what is not a target: folders, and temporaries that an interrupted commit had left.
func targetsOf(m map[string]inode) map[string]inode {
	out := map[string]inode{}
	for p, n := range m {
		if n.mode.IsRegular() && !strings.Contains(p, "/.prelet-") {
			out[p] = n
		}
	}
	return out
}

// goBack: what was before prelet comes back only where that is known, from an adopted generation and from one after it.
func (w adoptWorld) goBack(t *testing.T, b *box, s *Store, gen int) {
	t.Helper()
	for _, from := range []int{gen, gen + 1} {
		if from > gen {
			if n := b.apply(s, flipNext("8")); n != from {
				t.Fatalf("next generation: got %d, want %d", n, from)
			}
		}
		before := b.look()
		if err := s.KnowsBefore(); (err == nil) != w.before {
			t.Errorf("KnowsBefore: got %v, want known %v", err, w.before)
		}
		if w.before {
			continue
		}
		_, err := s.Rollback(from, 0, "by hand", true)
		if exitOf(err) != fault.Usage || !strings.Contains(err.Error(), fmt.Sprintf("generation %d adopted ", gen)) {
			t.Errorf("Rollback to 0: got %v, want %s and the generation", err, fault.Usage)
		}
		if !reflect.DeepEqual(before, b.look()) {
			t.Error("a refused way back changed something")
		}
		if err := s.KnowsBefore(); exitOf(err) != fault.Usage {
			t.Errorf("KnowsBefore: got %v, want %s", err, fault.Usage)
		}
	}
	if _, err := s.Rollback(gen+1, gen, "unhealthy", false); !w.before && (err != nil || b.read("/etc/kubernetes/a") != "2") {
		t.Errorf("Rollback to %d: got %v, content %q; want the content of that generation",
			gen, err, b.read("/etc/kubernetes/a"))
	}
}

// TestAdoptKilledAnywhere: whenever it is killed, or loses its power then or after recovery, no target is touched,
// and afterwards there is no such generation, or one that awaits a verdict; and the next attempt works.
func TestAdoptKilledAnywhere(t *testing.T) {
	for _, w := range adoptWorlds() {
		for _, cut := range []string{"no power cut", "power cut", "power cut after recovery"} {
			t.Run(w.name+", "+cut, func(t *testing.T) {
				template := w.make(t)
				ends := map[string]int{}
				for k, done := 1, false; !done; k++ {
					for _, adverse := range []bool{false, true} {
						a := adoption{t: t, w: w, k: k, cut: cut, adverse: adverse}
						done = a.run(template, ends)
						if cut == "no power cut" {
							break
						}
					}
				}
				if ends["none"] == 0 || ends["adopted"] == 0 {
					t.Errorf("got %v, want the kills on both sides of the commit", ends)
				}
			})
		}
	}
}

// adoption is one attempt that is killed at the k-th operation.
type adoption struct {
	t       *testing.T
	w       adoptWorld
	k       int
	cut     string
	adverse bool
}

func (a *adoption) power(p *power) *box {
	boot := p.b.o.BootID
	p.adverse = a.adverse
	b := p.cut(memory(a.t), func() bool { return false })
	b.o.BootID = boot
	return b
}

// recover recovers, and says which journal stands; an outdated one does.
func (a *adoption) recover(s *Store) {
	a.t.Helper()
	_, err := s.Recover()
	var stuck *StuckError
	if err != nil && (!errors.As(err, &stuck) || !stuck.Outdated) {
		a.t.Fatalf("k=%d: Recover: got %v, want no error", a.k, err)
	}
	if l := a.staged(s); err == nil && len(l) > 0 {
		a.t.Fatalf("k=%d: after recovery: got %v staged, want none", a.k, l)
	}
}

func (a *adoption) staged(s *Store) []int {
	l, err := s.listing()
	if err != nil {
		a.t.Fatal(err)
	}
	return l.staged
}

func (a *adoption) run(template *box, ends map[string]int) (done bool) {
	t, k, w := a.t, a.k, a.w
	t.Helper()
	b := template.copyTo(t, memory(t))
	b.o.BootID = template.o.BootID
	before := targetsOf(b.look())
	s, hook := b.openHooked()
	p := arm(b)
	kill := &killAt{at: k}
	*hook = func(op, path string) error {
		if err := kill.hook(op, path); err != nil {
			return err
		}
		p.hook(op, path)
		return nil
	}
	_, err := s.Adopt(flipNext("2"))
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatalf("k=%d: got %v, want it killed", k, err)
	}
	if now := targetsOf(b.look()); !reflect.DeepEqual(before, now) {
		t.Fatalf("k=%d: a target was touched: got %v, want %v", k, now, before)
	}
	contents := nodes(before)
	switch a.cut {
	case "power cut":
		s.Close()
		b = a.power(p)
	case "power cut after recovery":
		*hook = func(op, path string) error { p.hook(op, path); return nil }
		a.recover(s)
		was, _ := s.Current()
		adopted := was != nil && was.Adopted
		s.Close()
		b = a.power(p)
		s = b.open()
		if now, err := s.Current(); adopted && (err != nil || now == nil || now.Gen != was.Gen) {
			t.Fatalf("k=%d: recovered %d, and after the power cut got %+v, %v; want the same", k, was.Gen, now, err)
		}
		s.Close()
	default:
		s.Close()
	}
	s = b.open()
	defer s.Close()
	a.recover(s)
	cur, cerr := s.Current()
	j, jerr := s.Journal()
	if cerr != nil || jerr != nil {
		t.Fatalf("k=%d: got %v, %v; want no errors", k, cerr, jerr)
	}
	if cur != nil && cur.Adopted {
		ends["adopted"]++
		if j == nil || j.Phase != PhaseVerify || j.Gen != cur.Gen || cur.Gen < w.gen {
			t.Fatalf("k=%d: adopted %d with journal %+v, want it to await a verdict", k, cur.Gen, j)
		}
	} else {
		ends["none"]++
		if err == nil {
			t.Fatalf("k=%d: Adopt returned no error: got %+v in place, want the adopted generation", k, cur)
		}
		gen, err := s.Adopt(flipNext("2"))
		if err != nil || gen < w.gen {
			t.Fatalf("k=%d: Adopt again: got %d, %v, want %d or more", k, gen, err, w.gen)
		}
		cur, _ = s.Current()
	}
	if err := s.Good(cur.Gen, nil); err != nil {
		t.Fatalf("k=%d: Good: got %v, want no error", k, err)
	}
	s.Close()
	b.recover(t)
	if now := nodes(targetsOf(b.look())); !same(contents, now) {
		t.Fatalf("k=%d: got %v, want %v", k, now, contents)
	}
	if l := b.litter(); l != nil {
		t.Fatalf("k=%d: left behind: got %v, want nothing", k, l)
	}
	s = b.open()
	if good, ok := s.LastGood(); good != cur.Gen || !ok {
		t.Fatalf("k=%d: last good: got %d, %v, want %d", k, good, ok, cur.Gen)
	}
	return err == nil
}

// TestVerdictOnUnnamedAdoption: a verdict that comes before any recovery does not lose a generation that was killed
// before it had its name.
func TestVerdictOnUnnamedAdoption(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "a", 0o644)
	s, hook := b.openHooked()
	*hook = func(op, _ string) error { return endIf(op == opLink) }
	if _, err := s.Adopt(plan("p", file("/etc/kubernetes/a", "a"))); exitOf(err) != fault.Interrupted {
		t.Fatalf("got %v, want %s", err, fault.Interrupted)
	}
	s.Close()
	s = b.open()
	if err := s.Good(1, nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	b.recover(t)
	if cur, err := b.open().Current(); err != nil || cur == nil || cur.Status != StatusGood {
		t.Errorf("got %+v, %v, want generation 1 good", cur, err)
	}
}

// TestAdoptNumbers: the number is above the highest that is known from anywhere.
func TestAdoptNumbers(t *testing.T) {
	for _, c := range []struct{ above, want int }{{0, 1}, {7, 8}, {maxNumber + 1, 1}, {-3, 1}} {
		b := newBox(t)
		b.write("/etc/kubernetes/a", "a", 0o644)
		s := b.open()
		p := plan("p", file("/etc/kubernetes/a", "a"))
		p.Above = c.above
		if gen, err := s.Adopt(p); gen != c.want || err != nil {
			t.Errorf("above %d: got %d, %v, want %d", c.above, gen, err, c.want)
		}
		p.Targets[0].Content, p.Above = []byte("b"), c.want+4
		if gen := b.apply(s, p); gen != c.want+5 {
			t.Errorf("publish above %d: got %d, want %d", c.want+4, gen, c.want+5)
		}
	}
}

// TestAdoptUnjudged checks that without a verdict an adopted generation is good at once.
func TestAdoptUnjudged(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "a", 0o644)
	s := b.open()
	p := plan("p", file("/etc/kubernetes/a", "a"))
	p.Unjudged = []byte("{}")
	if gen, err := s.Adopt(p); gen != 1 || err != nil {
		t.Fatalf("got %d, %v, want 1", gen, err)
	}
	cur, err := s.Current()
	if err != nil || !cur.Adopted || cur.Status != StatusGood {
		t.Errorf("got %+v, %v, want it adopted and good", cur, err)
	}
	if j, err := s.Journal(); j != nil || err != nil {
		t.Errorf("journal: got %+v, %v, want none", j, err)
	}
}

// What is not adopted: nothing at all, what the generation in place records, and what it removed and the kubelet made
// again.
func TestAdoptsNothing(t *testing.T) {
	b := newBox(t)
	s := b.open()
	if c, err := s.Compare(plan("empty")); err != nil || c.Adopts {
		t.Errorf("no targets: got %+v, %v, want nothing to adopt", c, err)
	}
	b.write("/var/state", "old", 0o600)
	p := plan(
		"p",
		file("/etc/kubernetes/a", "a"),
		Target{Path: "/var/state", Mode: Keep, UID: Keep, GID: Keep, Forget: true},
	)
	b.apply(s, p)
	b.write("/var/state", "of the kubelet", 0o600)
	without := plan("p", p.Targets[0])
	if c, err := s.Compare(without); err != nil || c.Changed || c.Adopts {
		t.Errorf("state made again: got %+v, %v, want nothing", c, err)
	}
	b.write("/etc/kubernetes/equal", "e", 0o644)
	more := plan("p", p.Targets[0], file("/etc/kubernetes/equal", "e"))
	if c, err := s.Compare(more); err != nil || c.Changed || c.Adopts {
		t.Errorf("a new target that is as planned: got %+v, %v, want nothing", c, err)
	}
}

// TestAdoptedIsNeverRemoved: what a later plan or an earlier generation does not declare stays, since what it was
// before prelet is not known; and a folder that an earlier generation made stays too.
func TestAdoptedIsNeverRemoved(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "a", 0o644)
	b.write("/etc/kubernetes/b", "b", 0o644)
	s := b.open()
	if _, err := s.Adopt(plan("p1", file("/etc/kubernetes/a", "a"), file("/etc/kubernetes/b", "b"))); err != nil {
		t.Fatal(err)
	}
	p := plan("p2", file("/etc/kubernetes/a", "2"))
	c, err := s.Compare(p)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Entries, func(e Entry) bool { return e.Path == "/etc/kubernetes/b" })
	if e := c.Entries[i]; e.Action != ActionKeep || !strings.Contains(e.Why, "generation 1 adopted it") {
		t.Errorf("got %+v, want it kept with the reason", e)
	}
	b.apply(s, p)
	if got := b.read("/etc/kubernetes/b"); got != "b" {
		t.Errorf("b: got %q, want it kept", got)
	}
	if err := s.KnowsBefore(); exitOf(err) != fault.Usage {
		t.Errorf("KnowsBefore: got %v, want %s for a", err, fault.Usage)
	}
}

// TestAdoptRemovesNoFolder: a folder that an earlier generation made stays ours, and goes with the next that is
// published.
func TestAdoptRemovesNoFolder(t *testing.T) {
	b := newBox(t)
	s := b.open()
	a, inside := file("/etc/kubernetes/a", "1"), file("/srv/x/f", "f")
	b.apply(s, plan("p1", a, inside))
	if err := os.Remove(b.path(inside.Path)); err != nil {
		t.Fatal(err)
	}
	b.write(a.Path, "2", 0o644)
	p := plan("p2", file(a.Path, "2"))
	p.Unjudged = []byte("{}")
	if _, err := s.Adopt(p); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(b.path("/srv/x")); err != nil || !i.IsDir() {
		t.Errorf("got %v, want the folder kept", err)
	}
	b.apply(s, plan("p3", file(a.Path, "3")))
	if _, err := os.Stat(b.path("/srv/x")); !os.IsNotExist(err) {
		t.Errorf("got %v, want the folder removed", err)
	}
}

// TestOutdatedCommit: over a commit of an earlier boot whose targets somebody changed, another plan is published as
// ever. In the same boot a person is needed.
func TestOutdatedCommit(t *testing.T) {
	for _, boot := range []string{"boot-1", "boot-2"} {
		b := newBox(t)
		s, hook := b.openHooked()
		b.apply(s, flipNext("1"))
		ended := false
		*hook = func(op, p string) error {
			ended = ended || op == opRename && strings.HasSuffix(p, "/b")
			return endIf(ended)
		}
		if _, err := apply(s, flipNext("2")); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		s.Close()
		b.write("/etc/kubernetes/a", "foreign", 0o644)
		before := b.look()
		b.o.BootID = boot
		s = b.open()
		_, err := s.Recover()
		var stuck *StuckError
		if !errors.As(err, &stuck) || stuck.Outdated != (boot == "boot-2") {
			t.Fatalf("%s: got %v, want a person, outdated %v", boot, err, boot == "boot-2")
		}
		if !reflect.DeepEqual(before, b.look()) {
			t.Errorf("%s: something changed, want nothing touched", boot)
		}
		n, err := apply(s, flipNext("3"))
		if boot == "boot-1" {
			if exitOf(err) != fault.Interrupted {
				t.Errorf("%s: Begin: got %v, want %s", boot, err, fault.Interrupted)
			}
			continue
		}
		if err != nil || n != 3 || b.read("/etc/kubernetes/a") != "3" || b.read("/etc/kubernetes/pki/b") != "3 b" {
			t.Fatalf("%s: got %d, %v, %q; want generation 3 with its content",
				boot, n, err, b.read("/etc/kubernetes/a"))
		}
		if content, err := s.Content(Checksum([]byte("foreign"))); err != nil || string(content) != "foreign" {
			t.Errorf("%s: the foreign bytes: got %q, %v, want them kept", boot, content, err)
		}
		s.Close()
		if j := b.recover(t); j == nil || j.Gen != 3 {
			t.Errorf("%s: journal: got %+v, want that of 3", boot, j)
		}
		if l := b.litter(); l != nil {
			t.Errorf("%s: left behind: got %v, want nothing", boot, l)
		}
	}
}

// TestAdoptWithoutSpace: nothing can be adopted where nothing can be recorded.
func TestAdoptWithoutSpace(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/a", "a", 0o644)
	b.o.Fault = func(op, p string) error {
		if op == opWrite {
			return unix.ENOSPC
		}
		return nil
	}
	s := b.open()
	before := b.look()
	_, err := s.Adopt(plan("p", file("/etc/kubernetes/a", "a")))
	if exitOf(err) != fault.CannotWrite || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if !reflect.DeepEqual(before, b.look()) || b.litter() != nil {
		t.Errorf("got %v left behind, want nothing changed", b.litter())
	}
	if _, err := os.Lstat(filepath.Join(b.o.Dir, journalName)); !os.IsNotExist(err) {
		t.Errorf("journal: got %v, want none", err)
	}
}
