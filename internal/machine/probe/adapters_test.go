package probe

import (
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestEachKindHasAnAdapter checks that a real node answers each kind of question, and each with one adapter.
func TestEachKindHasAnAdapter(t *testing.T) {
	var got []tape.Kind
	for _, a := range (&Live{}).listAdapters() {
		got = append(got, a.Kind)
	}

	slices.Sort(got)
	if want := slices.Sorted(slices.Values(tape.Kinds())); !slices.Equal(got, want) {
		t.Errorf("got adapters for %v, want one for each of %v", got, want)
	}
}
