package nodefile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// noProcDir names the root of the process in which TestNoProc reads.
const noProcDir = "PRELET_TEST_NO_PROC"

// TestNoProc reads in a chroot without /proc: a file that exists must not look like one that is missing. It reads in a
// process of its own, because a read has a thread of its own.
func TestNoProc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may use chroot")
	}
	if dir := os.Getenv(noProcDir); dir != "" {
		readWithoutProc(t, dir)
		return
	}

	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProc$", "-test.v")
	c.Env = append(os.Environ(), noProcDir+"="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("in a chroot without /proc: got %v, want no error:\n%s", err, out)
	}
}

func readWithoutProc(t *testing.T, dir string) {
	must(t, unix.Chroot(dir))

	if _, err := ReadFile("/file", Max); !errors.Is(err, ErrNoProc) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file: got %v; want %v", err, ErrNoProc)
	}
	if _, err := ReadFile("/none", Max); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v; want %v", err, fs.ErrNotExist)
	}
	root, err := Find("/", FollowAll)
	must(t, err)
	defer root.Close()
	if _, err := root.Names(1); err != nil {
		t.Errorf("a folder: got %v; want no error", err)
	}
}
