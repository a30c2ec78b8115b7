package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

func (b *box) link(to, at string) {
	b.t.Helper()
	must(b.t, os.Symlink(b.path(to), b.path(at)))
}

// A walk refuses a link at the end of a path and above it.
func TestWalkRefusesLinks(t *testing.T) {
	b := newBox(t)
	b.link("/etc/kubernetes", "/etc/k8s")
	s := b.open()
	for p, want := range map[string]error{"/etc/k8s": unix.ELOOP, "/etc/k8s/x": unix.ELOOP, "/etc/none/x": unix.ENOENT, "/etc/kubernetes": nil, "/": nil} {
		f, err := s.openFolder(p)
		if !errors.Is(err, want) {
			t.Errorf("walk %s: %v, want %v", p, err, want)
		}
		if f != nil {
			f.close()
		}
	}
}

// Each errno, at each operation before COMMIT: nothing changed, nothing is left, the class is 40 and the message has
// a next step.
func TestErrnoBeforeCommit(t *testing.T) {
	b := sweepBox(t, 7)
	start := b.look()
	for _, errno := range []error{unix.ENOSPC, unix.EROFS, unix.EIO, unix.EDQUOT, unix.EMFILE, unix.EPERM} {
		for k := 1; ; k++ {
			s, hook := b.openHooked()
			left, op := k, ""
			*hook = failOnce(&left, &op, errno)
			_, err := s.Begin(b.next)
			*hook = nil
			if err == nil {
				if left > 0 && k > 20 {
					s.Close()
					b.recover(t)
					break
				}
				t.Fatalf("%v at %d (%s): got no error, want it", errno, k, op)
			}
			var f *fault.Fault
			if !errors.As(err, &f) {
				t.Fatalf("%v at %d: got %v, want a fault", errno, k, err)
			}
			e, ok := OnPath(f)
			if !ok || f.Code != fault.CannotWrite || !errors.Is(err, errno) || f.Next == "" || e.Path == "" {
				t.Fatalf("%v at %d: got %v, want its operation, its path and a next step", errno, k, err)
			}
			s.Close()
			if l := b.litter(); l != nil {
				t.Fatalf("%v at %d (%s): left behind: got %v, want nothing", errno, k, e.Op, l)
			}
			if !reflect.DeepEqual(start, b.lookTargets(start)) {
				t.Fatalf("%v at %d: something changed, want nothing touched", errno, k)
			}
		}
	}
}

// failOnce refuses the k-th operation, says which it was, and lets everything else pass. The ballast does not count:
// without it a commit goes on.
func failOnce(k *int, which *string, err error) func(op, p string) error {
	return func(op, p string) error {
		if filepath.Base(p) == lockName {
			return nil
		}
		if *k--; *k == 0 {
			*which = op
			return err
		}
		return nil
	}
}

// TestFailedFlushIsTakenBack: while what was staged is flushed with the journal, no target was touched, so the journal of
// the generation before is put back.
func TestFailedFlushIsTakenBack(t *testing.T) {
	b := newBox(t)
	s := b.open()
	b.apply(s, plan("p", file("/etc/kubernetes/a", "1")))
	before, err := s.Journal()
	must(t, err)
	s.Close()

	b.o.Fault = func(op, p string) error {
		if op == opFsync && strings.Contains(p, "/.prelet-") {
			return unix.EIO
		}
		return nil
	}
	s = b.open()
	defer s.Close()
	txn, err := s.Begin(plan("q", file("/etc/kubernetes/a", "2")))
	must(t, err)
	if _, err = txn.Commit(); fault.CodeOf(err) != fault.CannotWrite {
		t.Errorf("Commit: got %v, want it not to have changed anything", err)
	}
	if after, err := s.Journal(); err != nil || !after.Same(before) {
		t.Errorf("got the journal %+v, %v; want %+v", after, err, before)
	}
	if l := b.litter(); l != nil {
		t.Errorf("got %v left behind, want nothing", l)
	}
}

// After EIO on fsync the state of the data is unknown: it is not asked a second time.
func TestFsyncIsNotRepeated(t *testing.T) {
	b := newBox(t)
	var calls, bad atomic.Int32
	s := b.open()
	s.Close()
	b.o.fsync = func(int) error {
		if calls.Add(1) == 6 { // of the generation, the journal and two folders, then of two temporaries and a folder
			bad.Add(1)
			return unix.EIO
		}
		return nil
	}
	seen := map[string]int{}
	b.o.Fault = func(op, p string) error {
		if op == opFsync && strings.HasSuffix(p, tmpSuffix) {
			seen[p]++
		}
		return nil
	}
	s = b.open()
	txn, err := s.Begin(plan("p", file("/etc/kubernetes/a", "1"), file("/etc/kubernetes/b", "2")))
	must(t, err)
	_, err = txn.Commit()
	if !errors.Is(err, unix.EIO) || fault.CodeOf(err) != fault.CannotWrite || bad.Load() != 1 {
		t.Fatal(err, bad.Load())
	}
	for p, n := range seen {
		if n > 1 {
			t.Errorf("%s: got %d fsyncs, want one", p, n)
		}
	}
}

func TestErrorsName(t *testing.T) {
	err := wrap(fault.CannotWrite, "rename", "/etc/a", fmt.Errorf("x: %w", unix.EROFS))
	if got := err.Error(); !strings.Contains(got, "rename /etc/a") || !strings.Contains(got, "ReadWritePaths=") {
		t.Error(got)
	}
	if again := wrap(fault.NeedsPerson, "other", "/b", err); again != err {
		t.Error("wrapped twice:", again)
	}
	if fault.CodeOf(afterCommit(err)) != fault.Interrupted || fault.CodeOf(err) != fault.CannotWrite {
		t.Error("class after commit")
	}
}
