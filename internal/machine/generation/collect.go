package generation

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Collect removes old generations. It keeps the newest ones, as many as keep, the last good one, and those that the
// journal names. Every generation is complete by itself, so that no other one depends on those that are removed.
// Without anything to remove, nothing is written.
func (s *Store) Collect(keep int) error {
	l, err := s.listCommitted()
	if err != nil {
		return err
	}
	j, err := s.Journal()
	if err != nil {
		return err
	}

	kept := slices.Clone(l.done[max(0, len(l.done)-max(keep, 1)):])
	if j != nil {
		kept = append(kept, j.Gen, j.From, j.To)
	}
	if good, ok := s.LastGood(); ok {
		kept = append(kept, good)
	}
	isKept := func(n int) bool { return slices.Contains(kept, n) }

	old := slices.DeleteFunc(l.done, isKept)
	for _, n := range old {
		s.sweepTemps(n)
		if err := s.disk.unlink(s.gens, itoa(n)); err != nil {
			return err
		}
	}
	if len(old) > 0 {
		if err := s.disk.sync(s.gens); err != nil { // before their verdicts
			return err
		}
	}
	for _, n := range slices.DeleteFunc(l.statuses, isKept) {
		if err := s.disk.unlink(s.gens, itoa(n)+statusSuffix); err != nil {
			return err
		}
	}

	return nil
}

// ballastMin is the least space in bytes that is reserved for a rollback on a full disk, by the file lockName.
const ballastMin = 256 << 10

// keepBallast reserves the space that a rollback of this generation needs at most: a generation of the same contents
// and blobs, and a temporary of each target. A failure does not prevent the commit.
func (s *Store) keepBallast(m *manifest) {
	size := generationSize(m.Entries, nil)
	for _, p := range m.Parts {
		if p.Blob != "" {
			size += roundToBlocks(p.Size)
		}
	}
	for _, e := range m.Entries {
		size += 2 * roundToBlocks(max(e.New.Size, e.Old.Size, e.Original.Size))
	}

	want := max(ballastMin, int64(size))
	if s.disk.allow(opCreate, s.dir.name(lockName)) != nil {
		return
	}
	ballast, has, err := s.openBallast(unix.O_CREAT)
	if err != nil {
		return
	}
	defer ballast.close()
	if has >= want {
		return
	}

	err = s.disk.do(opAllocate, ballast.path, func() error {
		return unix.Fallocate(ballast.fd, 0, 0, want)
	})
	if err != nil {
		_ = s.truncate(ballast) // a part of the space would look like all of it
	}
}

// openBallast opens the file of the reserved space, and returns its size.
func (s *Store) openBallast(flags int) (f *folder, size int64, err error) {
	flags |= unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(s.dir.fd, lockName, flags, 0o600)
	if err != nil {
		return nil, 0, err
	}

	var st unix.Stat_t
	err = unix.Fstat(fd, &st)

	return &folder{fd: fd, path: s.dir.name(lockName)}, st.Size, err
}

// dropBallast frees the reserved space. It is false if there was none.
func (s *Store) dropBallast() bool {
	ballast, size, err := s.openBallast(0)
	if err != nil {
		return false
	}
	defer ballast.close()

	return size > 0 && s.truncate(ballast) == nil && s.disk.sync(ballast) == nil
}

// replaceAnyway makes a small document durable that ends a transaction, on a full disk with the reserved space.
func (s *Store) replaceAnyway(dir *folder, name string, text []byte) error {
	return s.replaceAfter(&syncRound{}, dir, name, text)
}

// replaceAfter is replaceAnyway, after everything in r is durable.
func (s *Store) replaceAfter(r *syncRound, dir *folder, name string, text []byte) error {
	return s.withBallast(func() error {
		return s.disk.replace(r, dir, name, text)
	})
}

// withBallast does something that a full disk must not prevent: it does it again with the reserved space, unless it has
// changed something by then.
func (s *Store) withBallast(do func() error) error {
	err := do()
	isFull := fault.CodeOf(err) == fault.CannotWrite && errors.Is(err, unix.ENOSPC)
	if isFull && s.dropBallast() {
		err = do()
	}

	return err
}

func (s *Store) truncate(f *folder) error {
	return s.disk.do(opTruncate, f.path, func() error {
		return unix.Ftruncate(f.fd, 0)
	})
}
