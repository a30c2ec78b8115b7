package generation

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCloseUnlocks closes a store while a copy of its descriptor stays open, as in a child between fork and exec.
func TestCloseUnlocks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first, err := Open(t.Context(), StoreConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(first.dir.fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second, err := OpenReadOnly(StoreConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := unix.Flock(second.dir.fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("lock after Close: got %v, want none", err)
	}
}
