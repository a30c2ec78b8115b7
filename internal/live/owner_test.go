package live

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwner names ids as the node's own files do, those below the root that is looked at.
func TestOwner(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"passwd": "root:x:0:0::/:\nbroken\netcd:x:998:997::/:\n", "group": "root:x:0:\netcd:x:997:\n"} {
		if err := os.WriteFile(filepath.Join(root, "etc", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := New(Options{Root: root})
	defer l.Close()
	for _, c := range []struct {
		uid, gid int
		want     string
	}{{0, 0, "root:root"}, {998, 997, "etcd:etcd"}, {998, 5, "etcd:5"}, {7, 997, "7:etcd"}} {
		if got := l.owner(c.uid, c.gid); got != c.want {
			t.Errorf("%d:%d is %s, want %s", c.uid, c.gid, got, c.want)
		}
	}
}
