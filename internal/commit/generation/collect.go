package generation

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// Collect removes old generations: the newest keep of them stay, the last good one (and the last intact one, if that
// is rotten), and whatever the journal speaks of. What was moved aside goes when keep newer ones are there: it may hold
// a secret. Each generation is complete by itself, so nothing that stays depends on what goes. Nothing to remove: nothing
// is written.
func (s *Store) Collect(keep int) error {
	if err := s.mayWrite("collect"); err != nil {
		return err
	}
	keep = max(keep, 1)
	kept, err := s.committed()
	if err != nil {
		return err
	}
	j, err := s.Journal()
	if err != nil {
		return err
	}
	l, err := s.listing()
	if err != nil {
		return err
	}
	stay := slices.Clone(kept[max(0, len(kept)-keep):])
	if good, ok := s.LastGood(); ok {
		stay = append(stay, good)
		if len(kept) > len(stay) && s.Intact(good) != nil { // then an older one is the way back
			if older, _, ok := s.LastIntact(good); ok {
				stay = append(stay, older)
			}
		}
	}
	if j != nil {
		stay = append(stay, j.Gen, j.From, j.To)
	}
	goes := func(n int) bool { return !slices.Contains(stay, n) }
	if slices.ContainsFunc(l.done, goes) {
		going := slices.DeleteFunc(slices.Clone(l.done), func(n int) bool { return !goes(n) })
		s.sweepTargets(going)
		for _, n := range going {
			if err := s.disk.unlink(s.gens, itoa(n)); err != nil {
				return err
			}
		}
		if err := s.disk.sync(s.gens); err != nil { // what became of a generation goes after it, for good
			return err
		}
	}
	for _, n := range l.statuses {
		if goes(n) {
			if err := s.disk.unlink(s.gens, itoa(n)+statusSuffix); err != nil {
				return err
			}
		}
	}
	for _, name := range sortedKeys(l.asides) {
		if len(kept) >= keep && l.asides[name] < kept[len(kept)-keep] {
			if err := s.disk.unlink(s.gens, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Space for going back when the disk is full is kept in the file of the lock, which is there anyway.
const (
	lockName   = "lock"
	ballastMin = 256 << 10 // bytes
)

// ballastFor is how much going back from a generation takes at most: a generation with the same contents, and temporaries.
func ballastFor(generation int) int64 {
	return max(ballastMin, int64(blocks(2*generation))+1<<16)
}

// keepBallast sets space aside for going back from a generation of this size. That it cannot is no reason not to commit.
func (s *Store) keepBallast(generation int) {
	want := ballastFor(generation)
	var st unix.Stat_t
	if unix.Fstat(s.lockFD, &st) != nil || st.Size >= want {
		return
	}
	if s.disk.do(opAllocate, s.dir.name(lockName), func() error { return unix.Fallocate(s.lockFD, 0, 0, want) }) != nil {
		_ = s.truncateLock() // half of it would pass for all of it
	}
}

// dropBallast frees that space; false when there was none.
func (s *Store) dropBallast() bool {
	var st unix.Stat_t
	if unix.Fstat(s.lockFD, &st) != nil || st.Size == 0 {
		return false
	}
	return s.truncateLock() == nil && s.disk.sync(&folder{fd: s.lockFD, path: s.dir.name(lockName)}) == nil
}

// putAnyway makes a small document durable that ends something. If the disk is full, it uses that space.
func (s *Store) putAnyway(dir *folder, name string, text []byte) error {
	err := s.disk.put(dir, name, nil, text)
	if errors.Is(err, unix.ENOSPC) && s.dropBallast() {
		err = s.disk.put(dir, name, nil, text)
	}

	return err
}

func (s *Store) truncateLock() error {
	return s.disk.do(opTruncate, s.dir.name(lockName), func() error { return unix.Ftruncate(s.lockFD, 0) })
}
