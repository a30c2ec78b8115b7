package generation

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// exchange moves a folder away and puts a link to another folder in its place, as its owner could.
func (b *box) exchange(folder, moved, to string) {
	b.t.Helper()
	must(b.t, os.Rename(b.path(folder), b.path(moved)))
	b.link(to, folder)
}

// lookBelow returns a folder and all that is in it.
func (b *box) lookBelow(folder string) map[string]inode {
	all := b.look()
	maps.DeleteFunc(all, func(p string, _ inode) bool { return !strings.HasPrefix(p, folder) })

	return all
}

// TestFolderIsExchanged puts a link in place of a folder before each change that a commit makes, one after another.
// Nothing may be written, changed or removed where the link leads to, neither by the commit nor by the recovery.
// There are 45 places; without O_NOFOLLOW 38 of them change something there.
func TestFolderIsExchanged(t *testing.T) {
	const victim = "/srv/victim"
	exchanged := map[bool]int{} // by whether the commit succeeded

	for change := 1; ; change++ {
		b := newBox(t)
		b.write("/etc/kubernetes/a", "old", 0o644)
		for _, name := range []string{"/a", "/b", "/folder/c", "/.prelet-1-0.tmp"} {
			b.write(victim+name, "victim", 0o600)
		}
		before := b.lookBelow(victim)

		s, hook := b.openHooked()
		n := 0
		*hook = func(string, string) error {
			if n++; n == change {
				b.exchange("/etc/kubernetes", "/etc/moved", victim)
			}
			return nil
		}
		_, err := apply(s, plan("p", file("/etc/kubernetes/a", "new"), file("/etc/kubernetes/b", "new"),
			folderTarget("/etc/kubernetes/folder"), file("/etc/kubernetes/folder/c", "new")))
		s.Close()
		if n < change {
			break
		}
		exchanged[err == nil]++

		s = b.open()
		_, recoverErr := s.Recover()
		s.Close()
		if got := b.lookBelow(victim); !maps.Equal(before, got) {
			t.Errorf("exchanged before change %d: got %v below the link, want %v; commit: %v; recovery: %v",
				change, nodes(got), nodes(before), err, recoverErr)
		}
	}

	if exchanged[false] == 0 {
		t.Errorf("got %v commits by success, want some that failed: the exchange had no effect", exchanged)
	}
}
