package generation

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/sample"
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
	chosen := sample.New(t)
	for _, w := range adoptWorlds() {
		for _, cut := range []string{"no power cut", "power cut", "power cut after recovery"} {
			t.Run(w.name+", "+cut, func(t *testing.T) {
				template := w.make(t)
				ends := map[string]int{}
				first, step := chosen.OneIn(4, w.name, cut)
				for k, done := 1+first, false; !done; k += step {
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
