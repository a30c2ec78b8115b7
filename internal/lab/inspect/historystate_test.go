package inspect

import (
	"testing"

	"github.com/prelet/prelet/internal/machine/generation"
)

// TestFindState: the state of a file in a generation that does not manage it follows from the generations around.
func TestFindState(t *testing.T) {
	file := func(sum string) generation.FileState { return generation.FileState{Kind: generation.File, SHA256: sum} }
	with := func(gen int, e generation.Entry) generation.Info {
		e.Path = "/x"
		return generation.Info{Gen: gen, Entries: []generation.Entry{e}}
	}
	wrote := with(1, generation.Entry{Old: file("old"), New: file("ours")})
	restored := generation.Entry{New: file("old"), Dropped: true, Action: generation.ActionRestore}
	deleted := generation.Entry{Dropped: true, Action: generation.ActionDelete}
	kept := generation.Entry{New: file("theirs"), Dropped: true, Action: generation.ActionKeep}
	retired := with(2, generation.Entry{New: file("ours")})
	retired.Retired = []string{"/x"}
	none := generation.Info{Gen: 3}

	for _, c := range []struct {
		name       string
		all        []generation.Info
		place      int
		sum, wants string
	}{
		{"managed", []generation.Info{wrote}, 0, "ours", ""},
		{"restored", []generation.Info{wrote, with(2, restored)}, 1, "old", "restore"},
		{"restored earlier", []generation.Info{wrote, with(2, restored), none}, 2, "old", "restore"},
		{"deleted", []generation.Info{wrote, with(2, deleted)}, 1, "", "keep"},
		{"kept", []generation.Info{wrote, with(2, kept), none}, 2, "theirs", "keep"},
		{"removed after its verdict", []generation.Info{wrote, retired}, 1, "", "delete"},
		{"released by a generation that is not kept", []generation.Info{wrote, none}, 1, "", "release"},
		{"before prelet", []generation.Info{{}, wrote}, 0, "old", "restore"},
	} {
		r := historyReader{all: c.all}
		s, _, left := r.findState(c.place, "/x")
		if s.SHA256 != c.sum || left != c.wants {
			t.Errorf("%s: got the content %q, %q; want %q, %q", c.name, s.SHA256, left, c.sum, c.wants)
		}
	}
}
