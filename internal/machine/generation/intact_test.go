package generation

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestIntact: every bit of a generation's file and of its status counts.
func TestIntact(t *testing.T) {
	b := newBox(t)
	s := b.open()
	must(t, s.Good(b.apply(s, flipNext("1")), []byte(`{"ok":true}`)))
	if err := s.checkIntact(1); err != nil {
		t.Fatalf("got %v, want it intact", err)
	}
	if err := s.checkIntact(2); !errors.Is(err, ErrNoGeneration) {
		t.Errorf("generation 2: got %v, want %v", err, ErrNoGeneration)
	}
	for _, name := range []string{"generations/1", "generations/1.status.json"} {
		p := filepath.Join(b.o.Dir, name)
		doc := read(t, p)
		for bit := 0; bit < len(doc)*8; bit += 3 {
			b.spoil(p, bit)
			if err := s.checkIntact(1); !isDamaged(err) {
				t.Fatalf("%s, bit %d: got %v, want a damage", name, bit, err)
			}
			b.spoil(p, bit)
		}
		for what, content := range map[string][]byte{"shorter": doc[:len(doc)-1], "longer": append(slices.Clone(doc), 'x'), "empty": {}} {
			osfile.Write(t, p, content, 0o600)
			if err := s.checkIntact(1); !isDamaged(err) {
				t.Errorf("%s, %s: got %v, want a damage", name, what, err)
			}
		}
		osfile.Write(t, p, doc, 0o600)
	}
}

// spoil flips one bit of a file in place.
func (b *box) spoil(p string, bit int) {
	b.t.Helper()
	doc := read(b.t, p)
	doc[bit/8] ^= 1 << (bit % 8)
	osfile.Write(b.t, p, doc, 0o600)
}
