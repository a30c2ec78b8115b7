package app

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenRegular refuses what a read would wait for: a pipe without a writer, and files of /proc, which are regular.
func TestOpenRegular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", "/proc/self/status"} {
		if f, err := openRegular(path); !errors.Is(err, errNotRegular) {
			t.Errorf("%s: got %v, %v; want %v", path, f, err, errNotRegular)
		}
	}
}
