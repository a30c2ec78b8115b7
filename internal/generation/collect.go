package generation

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// Collect removes old generations: the newest keep of them stay, the last good one, and whatever the journal speaks of.
// Each generation is complete by itself, so nothing that stays depends on what goes. Nothing to remove: nothing is written.
func (s *Store) Collect(keep int) error {
	if err := s.mayWrite("collect"); err != nil {
		return err
	}
	kept, err := s.committed()
	if err != nil {
		return err
	}
	j, err := s.Journal()
	if err != nil {
		return err
	}
	all, err := s.numbers()
	if err != nil {
		return err
	}
	st, err := s.staging()
	if err != nil {
		return err
	}
	stay := slices.Clone(kept[max(0, len(kept)-max(keep, 1)):])
	if good, ok := s.LastGood(); ok {
		stay = append(stay, good)
	}
	if j != nil {
		stay = append(stay, j.Gen, j.From, j.To)
	}
	if st != nil {
		stay = append(stay, st.Gen)
	}
	for _, n := range all {
		if !slices.Contains(stay, n) {
			if err := s.removeGeneration(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGeneration removes a generation's folder. The manifest goes first and for good: a folder without one is no
// generation, and is removed by the next Collect.
func (s *Store) removeGeneration(n int) error {
	gen, err := s.gen(n)
	if errors.Is(err, ErrNoGeneration) {
		return nil
	}
	if err != nil {
		return err
	}
	defer gen.close()
	if s.has(n, manifestName) {
		if err := s.disk.unlink(gen, manifestName); err != nil {
			return err
		}
		if err := s.disk.sync(gen); err != nil {
			return err
		}
	}
	for _, sub := range []string{oldName, newName} {
		dir, err := openIn(gen, sub)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		err = s.removeFiles(dir)
		dir.close()
		if err != nil {
			return err
		}
		if _, err := s.disk.rmdir(gen, sub); err != nil {
			return err
		}
	}
	if err := s.removeFiles(gen); err != nil {
		return err
	}
	if _, err := s.disk.rmdir(s.gens, itoa(n)); err != nil {
		return err
	}
	return s.disk.sync(s.gens)
}

func (s *Store) removeFiles(dir *folder) error {
	all, err := names(dir)
	if err != nil {
		return err
	}
	for _, n := range all {
		if err := s.disk.unlink(dir, n); err != nil {
			return err
		}
	}
	return nil
}

const (
	ballastName = "ballast"
	ballastSize = 256 << 10
)

// keepBallast sets space aside, for going back when the disk is full. That it cannot is no reason not to commit.
func (s *Store) keepBallast() {
	if p, there, err := printAt(s.dir, ballastName); err != nil || there && p.size == ballastSize {
		return
	}
	if s.disk.unlink(s.dir, ballastName) != nil {
		return
	}
	f, err := s.disk.create(s.dir, ballastName)
	if err != nil {
		return
	}
	defer f.close()
	if s.disk.do(opAllocate, f.path, func() error { return unix.Fallocate(f.fd, 0, 0, ballastSize) }) != nil {
		_ = s.disk.unlink(s.dir, ballastName)
	}
}

// dropBallast frees that space; false when there was none.
func (s *Store) dropBallast() bool {
	if _, there, err := printAt(s.dir, ballastName); err != nil || !there {
		return false
	}
	return s.disk.unlink(s.dir, ballastName) == nil && s.disk.sync(s.dir) == nil
}
