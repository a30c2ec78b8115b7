package generation

import (
	"errors"
	"os"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

func removeFolder(t *testing.T, b *box) {
	t.Helper()
	must(t, os.RemoveAll(b.path("/etc/kubernetes")))
}

// TestChecks checks that the checks of a command find what keeps a commit of the same changes from succeeding, as that
// commit does, and change nothing.
func TestChecks(t *testing.T) {
	target := file("/etc/kubernetes/a.conf", "x")
	created := Entry{Path: target.Path, Action: ActionCreate, New: FileState{Kind: File}}
	openFolder := func(b *box) {
		must(t, os.Chmod(b.path("/etc/kubernetes"), 0o777))
	}
	writeInOpenFolder := func(b *box) {
		b.write(target.Path, "x", 0o644)
		openFolder(b)
	}
	dir := folderTarget("/etc/kubernetes")
	changed := func(mode uint32) Entry {
		return Entry{Path: dir.Path, Action: ActionUpdate, Old: FileState{Kind: Dir}, New: FileState{Kind: Dir, Mode: mode}}
	}

	for name, c := range map[string]struct {
		spoil   func(b *box)
		changes []Entry
		targets []Target
		want    fault.Code
	}{
		"nothing is wrong": {func(*box) {}, []Entry{created}, []Target{target}, ""},
		"a file in place of a folder": {func(b *box) {
			removeFolder(t, b)
			b.write("/etc/kubernetes", "x", 0o644)
		}, []Entry{created}, []Target{target}, fault.CannotWrite},
		"other users may write to the folder": {
			openFolder, []Entry{created}, []Target{target}, fault.CannotWrite,
		},
		"the folder is a link": {func(b *box) {
			removeFolder(t, b)
			must(t, os.Symlink("/opt", b.path("/etc/kubernetes")))
		}, []Entry{created}, []Target{target}, fault.CannotWrite},
		"the commit takes the folder from other users": {
			openFolder,
			[]Entry{changed(0o755), created},
			[]Target{with(dir, func(t *Target) { t.Mode = 0o755 }), target},
			"",
		},
		"the commit gives the folder to other users": {
			func(*box) {},
			[]Entry{changed(0o777), created},
			[]Target{with(dir, func(t *Target) { t.Mode = 0o777 }), target},
			fault.CannotWrite,
		},
		"a removal where other users may write": {
			writeInOpenFolder,
			[]Entry{{Path: target.Path, Action: ActionDelete, Old: FileState{Kind: File}}},
			[]Target{{Path: target.Path}},
			"",
		},
		"a file that stays where other users may write": {
			writeInOpenFolder,
			[]Entry{{Path: target.Path, Action: ActionNone, Old: FileState{Kind: File}, New: FileState{Kind: File}}},
			[]Target{target},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			c.spoil(b)
			before := nodes(b.look())

			got := fault.CodeOf(s.Checks(c.changes).First())
			if got != c.want || !same(before, nodes(b.look())) {
				t.Errorf("got %q, want %q and no change", got, c.want)
			}
			_, err := apply(s, plan("p", c.targets...))
			if fault.CodeOf(err) != c.want && !errors.Is(err, ErrNothing) {
				t.Errorf("a commit of these changes: got %v, want %q as from the checks", err, c.want)
			}
		})
	}
}
