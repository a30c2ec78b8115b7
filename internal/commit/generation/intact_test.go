package generation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestIntact: every bit of a generation's file and of its status counts.
func TestIntact(t *testing.T) {
	b := newBox(t)
	s := b.open()
	if err := s.Good(b.apply(s, flipNext("1")), []byte(`{"ok":true}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Intact(1); err != nil {
		t.Fatalf("got %v, want it intact", err)
	}
	if err := s.Intact(2); !errors.Is(err, ErrNoGeneration) {
		t.Errorf("generation 2: got %v, want %v", err, ErrNoGeneration)
	}
	for _, name := range []string{"generations/1", "generations/1.status.json"} {
		p := filepath.Join(b.o.Dir, name)
		doc := read(t, p)
		for bit := 0; bit < len(doc)*8; bit += 3 {
			b.spoil(p, bit)
			var stuck *StuckError
			if err := s.Intact(1); exitOf(err) != fault.NeedsPerson || !errors.As(err, &stuck) || stuck.Next == "" {
				t.Fatalf("%s, bit %d: got %v, want %s and a next step", name, bit, err, fault.NeedsPerson)
			}
			b.spoil(p, bit)
		}
		for what, content := range map[string][]byte{"shorter": doc[:len(doc)-1], "longer": append(slices.Clone(doc), 'x'), "empty": {}} {
			if err := os.WriteFile(p, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Intact(1); exitOf(err) != fault.NeedsPerson {
				t.Errorf("%s, %s: got %v, want %s", name, what, err, fault.NeedsPerson)
			}
		}
		if err := os.WriteFile(p, doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// spoil flips one bit of a file in place.
func (b *box) spoil(p string, bit int) {
	b.t.Helper()
	doc := read(b.t, p)
	doc[bit/8] ^= 1 << (bit % 8)
	if err := os.WriteFile(p, doc, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestLastIntact: the next older good generation is found, and why the newer ones are not taken.
func TestLastIntact(t *testing.T) {
	b := newBox(t)
	s := b.open()
	for _, c := range []struct {
		content string
		good    bool
	}{{"1", true}, {"2", true}, {"3", false}, {"4", true}, {"5", true}, {"6", true}} {
		n := b.apply(s, flipNext(c.content))
		if c.good {
			if err := s.Good(n, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := func(name string) string { return filepath.Join(b.o.Dir, "generations", name) }
	end := func(p string) int { return len(read(t, p))*8 - 3 } // in the last part, which no manifest shows
	for _, step := range []struct {
		spoil   string
		below   int
		want    int
		damaged []int
	}{
		{"", 0, 6, nil},
		{"", 6, 5, nil},
		{"6", 0, 5, []int{6}},
		{"5.status.json", 0, 4, []int{6, 5}},
		{"4", 0, 2, []int{6, 5, 4}}, // 3 was never good
		{"", 5, 2, []int{4}},
		{"2", 0, 1, []int{6, 5, 4, 2}},
		{"1", 0, 0, []int{6, 5, 4, 2, 1}},
	} {
		if step.spoil != "" {
			b.spoil(last(step.spoil), end(last(step.spoil)))
		}
		gen, damaged, ok := s.LastIntact(step.below)
		var gens []int
		for _, r := range damaged {
			gens = append(gens, r.Gen)
			if exitOf(r.Why) != fault.NeedsPerson {
				t.Errorf("%+v: %d: got %v, want %s", step, r.Gen, r.Why, fault.NeedsPerson)
			}
		}
		if gen != step.want || ok != (step.want > 0) || !slices.Equal(gens, step.damaged) {
			t.Errorf("%+v: got %d, %v, %v; want the last intact one", step, gen, gens, ok)
		}
	}
	if gen, ok := s.LastGood(); gen != 6 || !ok { // its manifest is whole
		t.Errorf("LastGood: got %d, %v, want 6", gen, ok)
	}
}

// TestCollectKeepsTheIntact: when the last good generation is damaged, the intact one before it stays.
func TestCollectKeepsTheIntact(t *testing.T) {
	b := newBox(t)
	s := b.open()
	for _, content := range []string{"1", "2"} {
		if err := s.Good(b.apply(s, flipNext(content)), nil); err != nil {
			t.Fatal(err)
		}
	}
	b.apply(s, flipNext("3"))
	b.apply(s, flipNext("4"))
	p := filepath.Join(b.o.Dir, "generations/2")
	b.spoil(p, len(read(t, p))*8-3)
	if err := s.Collect(1); err != nil {
		t.Fatal(err)
	}
	var gens []int
	all, err := s.List()
	for _, i := range all {
		gens = append(gens, i.Gen)
	}
	if want := []int{1, 2, 4}; err != nil || !slices.Equal(gens, want) {
		t.Errorf("got %v, %v, want %v kept", gens, err, want)
	}
}
