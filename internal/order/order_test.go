package order

import (
	"slices"
	"testing"
)

func FuzzBy(f *testing.F) {
	f.Add([]byte("the order of equal elements stays"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		type element struct {
			key byte
			at  int
		}
		var got []element
		for i, c := range b {
			got = append(got, element{c % 8, i})
		}
		want := slices.Clone(got)
		compare := func(a, b element) int { return int(a.key) - int(b.key) }
		By(got, compare)
		slices.SortStableFunc(want, compare)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestKeys(t *testing.T) {
	if got := Keys(map[string]int{"b": 1, "a": 2, "": 3, "B": 4}); !slices.Equal(got, []string{"", "B", "a", "b"}) {
		t.Errorf("%q", got)
	}
	if got := Keys(map[string]bool(nil)); got != nil {
		t.Errorf("of none %q", got)
	}
}
