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
	must(t, err)
	child, err := unix.Dup(first.dir.fd)
	must(t, err)
	defer unix.Close(child)
	must(t, first.Close())

	second, err := OpenReadOnly(StoreConfig{Dir: dir})
	must(t, err)
	defer second.Close()
	if err := unix.Flock(second.dir.fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("lock after Close: got %v, want none", err)
	}
}
