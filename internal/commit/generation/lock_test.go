package generation

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// TestLockHolder: a run that waited for the lock reports the process that holds it, and so does a store that was opened
// read-only. Here that is the test itself.
func TestLockHolder(t *testing.T) {
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Fatalf("read /proc/locks: got error %v, want none", err)
	}
	b := newBox(t)
	findHolder := func() (int, bool) {
		t.Helper()
		s, err := OpenReadOnly(b.o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.LockHolder()
	}

	if pid, ok := findHolder(); ok {
		t.Errorf("without a lock: got process %d, want none", pid)
	}

	s := b.open()
	if pid, ok := findHolder(); !ok || pid != os.Getpid() {
		t.Errorf("while it is held: got process %d, %t; want %d", pid, ok, os.Getpid())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, b.o)
	if exitOf(err) != fault.Locked {
		t.Fatalf("second Open: got %v, want code %s", err, fault.Locked)
	}
	for _, want := range []string{"process " + itoa(os.Getpid()), "/var/lib/prelet/lock", "waited "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("second Open: got %q, want %q in it", err, want)
		}
	}

	if err := s.Unlock(); err != nil {
		t.Fatal(err)
	}
	if pid, ok := findHolder(); ok {
		t.Errorf("after the release: got process %d, want none", pid)
	}
}
