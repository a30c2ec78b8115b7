package nodefile

import (
	"os"
	"path/filepath"
	"testing"
)

// newTree returns a root with one file, /etc/kubernetes/x.
func newTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "etc/kubernetes"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "etc/kubernetes/x"), nil, 0o600))
	return root
}

func TestFindDisk(t *testing.T) {
	root := newTree(t)
	for path, want := range map[string]string{
		"/etc/kubernetes/y": "/etc/kubernetes",
		"/etc/a/b/c":        "/etc",
		"/var/lib/prelet/x": "/",
	} {
		d := Root(root).FindDisk(path)
		if d.Err != nil || d.Path != filepath.Join(root, want) || d.Bytes == 0 || d.ReadOnly {
			t.Errorf("%s: got %+v, want %s, not read-only, and no error", path, d, want)
		}
	}

	if d := Root(root).FindDisk("/etc/kubernetes/x/y"); d.Err == nil {
		t.Errorf("below a file: got %+v, want an error", d)
	}
}

func TestDiskSize(t *testing.T) {
	root := Root(newTree(t))
	have, missing := root.FindDisk("/etc/x").Bytes, root.FindDisk("/none/at/all").Bytes
	if have <= 0 || have != missing {
		t.Errorf("got %d bytes for /etc and %d for a missing folder, want the same size above 0", have, missing)
	}
	if got := root.FindDisk("/etc/kubernetes/x/y/z").Bytes; got != 0 {
		t.Errorf("below a file: got %d bytes, want 0", got)
	}
}
