package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestLostJournal moves the journal of an interrupted commit away. The next recovery removes the temporaries next to
// the targets, one of which contains a secret, wherever the commit was interrupted, and touches no other file.
func TestLostJournal(t *testing.T) {
	secret := with(file("/etc/kubernetes/secret", "s3cret"), func(t *Target) { t.Secret, t.Mode = true, Keep })
	next := flipNext("2")
	next.Targets = append(next.Targets, secret, file("/etc/kubernetes/z", "z"))
	for name, do := range map[string]func(s *Store) error{
		"publish":  func(s *Store) error { _, err := apply(s, next); return err },
		"rollback": func(s *Store) error { _, err := s.Rollback(2, 1, "unhealthy", true); return err },
	} {
		t.Run(name, func(t *testing.T) {
			litter := 0
			for k := 1; ; k++ {
				b := newBox(t)
				s, hook := b.openHooked()
				b.apply(s, flipNext("1"))
				if name == "rollback" {
					b.apply(s, next)
				}
				kill := &killAt{at: k}
				*hook = kill.hook
				err := do(s)
				*hook = nil
				s.Close()
				if err == nil {
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("k=%d: got %v, want it killed", k, err)
				}
				if err := os.Remove(filepath.Join(b.o.Dir, journalName)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				litter += len(b.litter())
				was := b.look()
				b.recover(t)
				if l := b.litter(); l != nil {
					t.Fatalf("k=%d: left behind: got %v, want nothing", k, l)
				}
				for p, n := range b.look() {
					if n.mode.IsRegular() && !reflect.DeepEqual(n, was[p]) {
						t.Fatalf("k=%d: %s: got %+v, want %+v", k, p, n, was[p])
					}
				}
			}
			if litter == 0 {
				t.Error("there never was anything to remove")
			}
		})
	}
}

// TestLitterGoesWithItsGeneration checks that temporaries that an older prelet left next to the targets are removed
// with their generation, and that a file with a similar name stays.
func TestLitterGoesWithItsGeneration(t *testing.T) {
	b := newBox(t)
	s := b.open()
	b.apply(s, flipNext("1"))
	b.apply(s, flipNext("2"))
	ours := "/etc/kubernetes/.prelet-1-0.tmp"
	others := []string{ours + ".x", "/etc/kubernetes/.prelet-1-1.tmp", "/etc/kubernetes/.prelet-9-0.tmp"}
	for _, p := range append([]string{ours}, others...) {
		b.write(p, "left", 0o600)
	}
	if err := s.Collect(1); err != nil {
		t.Fatal(err)
	}
	if got := b.read(ours); got != "absent" {
		t.Errorf("%s: got %q, want it removed", ours, got)
	}
	for _, p := range others {
		if got := b.read(p); !strings.HasPrefix(got, "left") {
			t.Errorf("%s: got %q, want it kept", p, got)
		}
	}
}

// TestAsideGoesWithTheLimit moves files aside as the messages say: they stay while they may be of use, and go, with the
// secrets that they may hold, when as many newer generations are kept as stay.
func TestAsideGoesWithTheLimit(t *testing.T) {
	b := newBox(t)
	s := b.open()
	next := func(n int) {
		t.Helper()
		b.apply(s, plan(fmt.Sprint("p", n), file("/etc/kubernetes/a", fmt.Sprint(n))))
		if err := s.Good(n, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Collect(3); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (out []string) {
		all, _ := filepath.Glob(filepath.Join(s.o.Dir, "generations", "*.aside"))
		for _, p := range all {
			out = append(out, filepath.Base(p))
		}

		return out
	}

	next(1)
	next(2)
	names := []string{"2.aside", "2.staged.aside", "2.status.json.aside", "2.notours.aside", "note.aside"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(s.o.Dir, "generations", name), []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next(3)
	next(4)
	if got := left(); len(got) != len(names) {
		t.Errorf("with two newer generations: got %q, want all of %q", got, names)
	}
	next(5)
	if got := left(); len(got) != 2 || got[0] != "2.notours.aside" || got[1] != "note.aside" {
		t.Errorf("with three newer generations: got %q, want only what no message names", got)
	}
}
