package image

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A leftover that another program has removed since Find is not an error, and neither is one to be emptied.
func TestRemovedMeanwhile(t *testing.T) {
	root := newImage(t, map[string]string{"/etc/machine-id": "1\n", "/etc/ssh/ssh_host_rsa_key": "key"})
	found := find(root).Leftovers
	err := errors.Join(os.Remove(root.Path("/etc/machine-id")), os.RemoveAll(root.Path("/etc/ssh")))
	must(t, err)
	if done, err := Remove(t.Context(), root, found); err != nil || len(done) != 2 {
		t.Errorf("got %+v, %v; want both done, without an error", done, err)
	}
}

// Files are written with the documented modes whatever the umask, and over a temporary file that an earlier call left.
func TestModes(t *testing.T) {
	root := newImage(t, map[string]string{
		"/usr/lib/a/seal.json":     "old",
		"/usr/lib/a/seal.json.tmp": "left over, with mode 0600",
	})
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	want := map[string]fs.FileMode{"/usr/lib/a/seal.json": 0o644, "/usr/lib/b/seal.json": 0o644, "/usr/lib/b": 0o755}
	for _, file := range []string{"/usr/lib/a/seal.json", "/usr/lib/b/seal.json"} {
		must(t, WriteFile(root, file, []byte("new")))
	}
	for file, mode := range want {
		st, err := os.Stat(root.Path(file))
		must(t, err)
		if st.Mode().Perm() != mode {
			t.Errorf("%s: got mode %v; want %v", file, st.Mode().Perm(), mode)
		}
	}
	files := map[string]string{"/usr/lib/a/seal.json": "new", "/usr/lib/b/seal.json": "new"}
	if diff := cmp.Diff(files, list(t, string(root))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
