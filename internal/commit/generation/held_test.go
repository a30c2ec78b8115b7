package generation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// isFolder is the content of a file of the store that is a folder.
const isFolder = "folder"

// putHeld replaces held.json.
func (b *box) putHeld(content string) {
	b.t.Helper()
	file := filepath.Join(b.o.Dir, heldName)
	err := os.RemoveAll(file)
	if content == isFolder {
		err = errors.Join(err, os.MkdirAll(filepath.Join(file, "more"), 0o700))
	} else {
		err = errors.Join(err, os.WriteFile(file, []byte(content), 0o600))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestUnreadableHeld: a held.json that cannot be read holds every plan, and stops nothing else.
func TestUnreadableHeld(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		pin     fault.Code // of Pin; "" for none
	}{
		"garbage": {"{", ""},
		"empty":   {"", ""},
		"folder":  {isFolder, ""},
		"newer":   {string(encode(&held{Version: formatVersion + 1})), fault.NeedsPerson},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			for _, content := range []string{"1", "2"} {
				if err := s.Good(b.apply(s, flipNext(content)), nil); err != nil {
					t.Fatal(err)
				}
			}
			b.putHeld(c.content)
			if j, err := s.Recover(); j != nil || err != nil {
				t.Errorf("Recover: got %v, %v, want nothing", j, err)
			}
			if all, err := s.HeldAll(); len(all) != 0 || err != nil {
				t.Errorf("HeldAll: got %v, %v, want none", all, err)
			}
			if why, ok := s.Held("any"); !ok || why == "" {
				t.Errorf("Held: got %q, %v, want every plan held", why, ok)
			}
			gen, why, ok := s.Pinned()
			if gen != Unreadable || !strings.Contains(why, heldName) || !ok {
				t.Errorf("Pinned: got %d, %q, %v, want %d and the file", gen, why, ok, Unreadable)
			}
			if err := s.Hold("bad", "died"); err != nil {
				t.Errorf("Hold: got %v, want nothing to do", err)
			}
			was, err := s.Holds()
			if exitOf(err) != c.pin {
				t.Errorf("Holds: got %v, want %q", err, c.pin)
			}
			if err := s.Pin(1, "by hand"); exitOf(err) != c.pin {
				t.Errorf("Pin: got %v, want %q", err, c.pin)
			}
			if c.pin == "" {
				if err := s.RestoreHolds(was); err != nil {
					t.Errorf("RestoreHolds: got %v, want no error", err)
				}
				if gen, _, ok := s.Pinned(); gen != Unreadable || !ok {
					t.Errorf("after RestoreHolds: got %d, %v, want %d", gen, ok, Unreadable)
				}
				if err := s.Pin(1, "by hand"); err != nil {
					t.Errorf("Pin again: got %v, want no error", err)
				}
			}
			if _, err := s.Rollback(2, 1, "by hand", true); err != nil || b.read("/etc/kubernetes/a") != "1" {
				t.Errorf("Rollback: got %v, content %q; want content 1", err, b.read("/etc/kubernetes/a"))
			}
			if gen, _, ok := s.Pinned(); c.pin == "" && (gen != 1 || !ok) {
				t.Errorf("after Pin: got %d, %v, want 1", gen, ok)
			}
			for range 2 { // the second time, what a folder left is there
				b.putHeld(c.content)
				if err := s.Release(); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, ok := s.Pinned(); ok {
				t.Error("still pinned after Release")
			}
			if _, ok := s.Held("any"); ok {
				t.Error("still held after Release")
			}
			if err := s.Pin(gen, why); err != nil { // as somebody does who takes a release back
				t.Fatal(err)
			}
			if again, _, ok := s.Pinned(); again != Unreadable || !ok {
				t.Errorf("pinned again: got %d, %v, want %d", again, ok, Unreadable)
			}
		})
	}
}
