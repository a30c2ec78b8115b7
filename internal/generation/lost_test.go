package generation

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestLostJournal: somebody moves the journal of an interrupted commit aside. Temporaries beside the targets, of
// which one holds a secret, are removed by the next recovery, wherever the commit was interrupted, and nothing else
// is touched.
func TestLostJournal(t *testing.T) {
	secret := with(file("/etc/kubernetes/secret", "s3cret"), func(t *Target) { t.Secret, t.Mode = true, Keep })
	next := flipNext("2")
	next.Targets = append(next.Targets, secret, file("/etc/kubernetes/z", "z"))
	for name, do := range map[string]func(s *Store) error{
		"publish":  func(s *Store) error { _, err := apply(s, next); return err },
		"rollback": func(s *Store) error { _, err := s.Rollback(2, 1, "ill", true); return err },
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
					t.Fatalf("k=%d: left behind %v", k, l)
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

// TestLitterGoesWithItsGeneration: temporaries that an older prelet left beside the targets go when their generation
// does, and a file that only looks like one stays.
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
