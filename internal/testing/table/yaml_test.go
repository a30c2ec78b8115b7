package table

import (
	"slices"
	"testing"
)

func TestYAML(t *testing.T) {
	got := YAML[[]struct {
		Name  string
		Words []string
	}](t, `
- {name: one, words: [a, b]}
# a case of its own
- name: two
`)
	if len(got) != 2 || got[0].Name != "one" || !slices.Equal(got[0].Words, []string{"a", "b"}) || got[1].Name != "two" {
		t.Errorf("got %+v, want one with two words, and two", got)
	}
}

func TestLines(t *testing.T) {
	if got := Lines("\na\n\n b\n"); !slices.Equal(got, []string{"a", "", " b"}) {
		t.Errorf("got %q, want three lines", got)
	}
}
