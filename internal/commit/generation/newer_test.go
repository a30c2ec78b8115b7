package generation

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// asNewer writes a document of the store again as a later version, with a member that this one does not know. What
// follows the first line stays.
func (b *box) asNewer(name string) {
	b.t.Helper()
	path := filepath.Join(b.o.Dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	body := strings.Replace(line[:strings.LastIndex(line, sealBegin)], `{"version":2`, `{"version":3,"later":1`, 1)
	sealed := body + sealBegin + Checksum([]byte(body)) + sealEnd + rest
	if err := os.WriteFile(path, []byte(sealed), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestNewer: a store with a file of a later version can be read, and each method that writes is refused without a
// change.
func TestNewer(t *testing.T) {
	writes := map[string]func(s *Store) error{
		"hold":    func(s *Store) error { return s.Hold("p", "why") },
		"pin":     func(s *Store) error { return s.Pin(1, "why") },
		"good":    func(s *Store) error { return s.Good(2, []byte(`{"new":1}`)) },
		"retire":  func(s *Store) error { return s.Retire(2, "/etc/kubernetes/a") },
		"begin":   func(s *Store) error { _, err := s.Begin(plan("p3", file("/etc/kubernetes/a", "3"))); return err },
		"restore": func(s *Store) error { _, err := s.Rollback(2, 1, "why", false); return err },
	}

	for _, name := range []string{"generations/2", "generations/2.status.json", journalName} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
			if err := s.Good(1, nil); err != nil {
				t.Fatal(err)
			}
			b.apply(s, plan("p2", file("/etc/kubernetes/a", "2")))
			if name != journalName {
				if err := s.Good(2, nil); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			b.asNewer(name)
			before := b.look()

			s = b.open()
			if err := s.Newer(); !errors.Is(err, ErrNewer) || fault.CodeOf(err) != fault.NewerPrelet {
				t.Errorf("Newer: got %v, want ErrNewer with %s", err, fault.NewerPrelet)
			}
			if j, err := s.Recover(); err != nil || (j != nil) != (name == journalName) {
				t.Errorf("Recover: got %+v, %v; want the journal as it is", j, err)
			}
			cur, err := s.Current()
			if err != nil || cur.Gen != 2 || len(cur.Entries) != 1 || cur.Newer != (name == "generations/2") {
				t.Errorf("Current: got %+v, %v; want generation 2 with its entry", cur, err)
			}
			if differing, err := s.Differing(); err != nil || len(differing) > 0 {
				t.Errorf("Differing: got %q, %v; want none", differing, err)
			}
			for what, write := range writes {
				if err := write(s); err == nil {
					t.Errorf("%s: got no error, want a refusal", what)
				}
			}
			if after := b.look(); !reflect.DeepEqual(before, after) {
				t.Errorf("got %v, want nothing changed: %v", after, before)
			}
		})
	}
}

// TestNewerGenerationIsNoGoal: an earlier generation of a later version is not restored.
func TestNewerGenerationIsNoGoal(t *testing.T) {
	b := newBox(t)
	s := b.open()
	for _, content := range []string{"1", "2"} {
		b.apply(s, plan("p"+content, file("/etc/kubernetes/a", content)))
		if err := s.Good(int(content[0]-'0'), nil); err != nil {
			t.Fatal(err)
		}
	}
	b.asNewer("generations/1")
	if err := s.Newer(); err != nil {
		t.Errorf("Newer: got %v, want nil: the generation in place is of this version", err)
	}
	if gen, ok := s.LastGood(); !ok || gen != 2 {
		t.Errorf("LastGood: got %d, %v; want 2", gen, ok)
	}
	if _, err := s.Rollback(2, 1, "why", false); !errors.Is(err, ErrNewer) {
		t.Errorf("Rollback: got %v, want ErrNewer", err)
	}
}

// TestReleasedDocuments: the journal and the list of held plans of each released version are read.
func TestReleasedDocuments(t *testing.T) {
	journals, err := filepath.Glob("../../../testdata/stability/*/" + journalName)
	if err != nil || len(journals) == 0 {
		t.Fatalf("got %d journals, %v; want some", len(journals), err)
	}
	for _, path := range journals {
		j, err := parseJournal(readTestFile(t, path))
		if err != nil || j.Phase != PhaseVerify || j.Gen != 2 || j.Tries != 1 {
			t.Errorf("%s: got %+v, %v; want generation 2, which awaits its verdict after one try", path, j, err)
		}
		list := filepath.Join(filepath.Dir(path), heldName)
		h, err := parseHeld(readTestFile(t, list))
		if err != nil || h.Pin == nil || h.Pin.Gen != 1 || h.Pin.Why != "prelet rollback" {
			t.Errorf("%s: got %+v, %v; want a pin of generation 1", list, h, err)
		}
	}
}

func readTestFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return text
}
