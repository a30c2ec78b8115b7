package generation

import (
	"os"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

func removeFolder(t *testing.T, b *box) {
	t.Helper()
	if err := os.RemoveAll(b.path("/etc/kubernetes")); err != nil {
		t.Fatal(err)
	}
}

// TestChecks checks that a command without a plan finds what keeps a commit of a file from succeeding, as that commit
// does, and changes nothing.
func TestChecks(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *box)
		want  fault.Code
	}{
		"nothing is wrong": {func(*box) {}, ""},
		"a file in place of a folder": {func(b *box) {
			removeFolder(t, b)
			b.write("/etc/kubernetes", "x", 0o644)
		}, fault.CannotWrite},
		"other users may write to the folder": {func(b *box) {
			if err := os.Chmod(b.path("/etc/kubernetes"), 0o777); err != nil {
				t.Fatal(err)
			}
		}, fault.CannotWrite},
		"the folder is a link": {func(b *box) {
			removeFolder(t, b)
			if err := os.Symlink("/opt", b.path("/etc/kubernetes")); err != nil {
				t.Fatal(err)
			}
		}, fault.CannotWrite},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			c.spoil(b)
			before := nodes(b.look())

			got := fault.CodeOf(s.Checks([]string{"/etc/kubernetes/a.conf"}).First())
			if got != c.want || !same(before, nodes(b.look())) {
				t.Errorf("got %q, want %q and no change", got, c.want)
			}
			if _, err := apply(s, plan("p", file("/etc/kubernetes/a.conf", "x"))); fault.CodeOf(err) != c.want {
				t.Errorf("a commit of that file: got %v, want %q as from the checks", err, c.want)
			}
		})
	}
}
