package nodefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoProc reads in a chroot without /proc: a file that exists must not look like one that is missing.
func TestNoProc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may use chroot")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))

	type result struct{ read, names, missing, setUp error }
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread, and its root, end with this goroutine
		var r result
		r.setUp = unix.Unshare(unix.CLONE_FS)
		if r.setUp == nil {
			r.setUp = unix.Chroot(dir)
		}
		if r.setUp == nil {
			_, r.read = ReadFile("/file", Max)
			_, r.missing = ReadFile("/none", Max)
			var root *Look
			if root, r.setUp = Find("/", FollowAll); r.setUp == nil {
				_, r.names = root.Names(1)
				root.Close()
			}
		}
		done <- r
	}()

	switch r := <-done; {
	case r.setUp != nil:
		t.Fatal(r.setUp)
	case !errors.Is(r.read, ErrNoProc) || errors.Is(r.read, fs.ErrNotExist):
		t.Errorf("a file: got %v; want %v", r.read, ErrNoProc)
	case r.names != nil:
		t.Errorf("a folder: got %v; want no error", r.names)
	case !errors.Is(r.missing, fs.ErrNotExist):
		t.Errorf("a missing file: got %v; want %v", r.missing, fs.ErrNotExist)
	}
}
