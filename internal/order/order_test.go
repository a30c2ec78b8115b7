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
