package generation

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
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
