package generation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// TestLockReplaced removes or replaces the file of the lock while it is held: no other process gets the lock until the
// holder releases it, and then exactly one does, by the file that has the name.
func TestLockReplaced(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"a folder": func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "more"), 0o700))
		},
		"a link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/nowhere", path))
		},
		"a socket": func(path string) error {
			return errors.Join(os.Remove(path), unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			holder := b.open()
			if err := change(holder.dir.name(lockName)); err != nil {
				t.Fatal(err)
			}

			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if s, err := Open(short, b.o); exitOf(err) != fault.Locked {
				t.Fatalf("while it is held: got %v, %v; want code %s", s, err, fault.Locked)
			}

			if err := holder.Unlock(); err != nil {
				t.Fatal(err)
			}
			second, err := Open(t.Context(), b.o)
			if err != nil {
				t.Fatalf("after it was released: got error %v, want none", err)
			}
			defer second.Close()
			again, cancelAgain := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancelAgain()
			if err := holder.Relock(again); exitOf(err) != fault.Locked {
				t.Errorf("first process, while the second has it: got %v, want code %s", err, fault.Locked)
			}
			if err := second.Unlock(); err != nil {
				t.Fatal(err)
			}
			if err := holder.Relock(t.Context()); err != nil || !holder.isLockInPlace() {
				t.Errorf("first process, in the end: got error %v, its file in place %t; want the lock by that file",
					err, holder.isLockInPlace())
			}
		})
	}
}
