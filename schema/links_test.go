package schema

import "testing"

func TestRemoveLinks(t *testing.T) {
	got := removeLinks("Absolute. [Some places are refused](targets.md), `a[0]` is not.")
	if want := "Absolute. Some places are refused, `a[0]` is not."; got != want {
		t.Errorf("text of a message: got %q, want %q", got, want)
	}
}
