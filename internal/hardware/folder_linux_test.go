package hardware

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A folder that is asked for again and again is held: names in it mean what they meant before, links included, and whoever
// closes the tree closes what was held.
func TestHeldFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"real/a": "1", "real/b": "2", "other/c": "3"} {
		p := filepath.Join(dir, "tree", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"device": "real", "real/across": "../other/c", "real/out": "../../secret", "real/far": filepath.Join(dir, "secret")} {
		if err := os.Symlink(to, filepath.Join(dir, "tree", link)); err != nil {
			t.Fatal(err)
		}
	}
	before := descriptors(t)
	tree, err := openFolder(filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tree.(*beneathTree); !ok {
		t.Skip("this kernel has no openat2, or a sandbox forbids it")
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for n := range 50 {
				folder := []string{"device", "real"}[(worker+n/5)%2] // some in a row, then the other
				for name, want := range map[string]string{"a": "1", "b": "2", "across": "3"} {
					if b, err := tree.ReadFile(folder+"/"+name, 10); err != nil || string(b) != want {
						t.Errorf("%s/%s: %q, %v", folder, name, b, err)
					}
				}
				for _, name := range []string{"out", "far"} {
					if b, err := tree.ReadFile(folder+"/"+name, 10); !errors.Is(err, errEscapes) {
						t.Errorf("%s/%s leads out of the tree, and gave %q, %v", folder, name, b, err)
					}
				}
				if _, err := tree.ReadFile(folder+"/none", 10); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s/none: %v", folder, err)
				}
			}
		})
	}
	all.Wait()
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, there were %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	n := 0
	for fd := range 256 {
		if _, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
			n++
		}
	}
	return n
}
