package generation

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// SetAside moves the damaged files of the newest generation, and of a staged one that was never committed, aside as if
// they were lost, so that a node does not stay down: the next run adopts the files in place. It returns the moved files
// with the reasons, for people. It moves nothing while targets may be a mixture: while a commit is unfinished, or if
// the journal cannot be read and the files are not all those of the newest generation. Files of other users or of a
// newer version, and everything on a read-only file system, stay as well. Recover and Check report what stays.
func (s *Store) SetAside() (moved []string, err error) {
	if err := s.checkLocked("set aside"); err != nil {
		return nil, err
	}
	if s.dir == nil || s.frozen != nil {
		return nil, nil
	}
	defer lockThread()()

	j, err := s.Journal()
	if err != nil {
		why, isMoved, err := s.setAside(s.dir, err, s.isWhole)
		if err != nil || !isMoved {
			return nil, err
		}
		moved = append(moved, why)
	}
	if j.IsUnfinished() {
		return moved, nil
	}

	staged, err := s.setStagedAside(j)
	moved = append(moved, staged...)
	for err == nil {
		_, _, damage := s.current()
		why, isMoved, failed := s.setAside(s.gens, damage, nil)
		if !isMoved {
			return moved, failed
		}
		moved = append(moved, why)
	}

	return moved, err
}

// setStagedAside moves generations aside that were staged, cannot be read, and were never committed. It removes their
// temporaries next to the targets that are known. j may be nil.
func (s *Store) setStagedAside(j *Journal) (moved []string, err error) {
	l, err := s.listing()
	if err != nil {
		return nil, err
	}
	for _, n := range l.staged {
		if slices.Contains(l.done, n) || j != nil && j.Gen == n {
			continue
		}
		_, damage := s.readManifest(n, "")
		why, isMoved, err := s.setAside(s.gens, damage, nil)
		if err != nil {
			return moved, err
		}
		if isMoved {
			s.sweepTemps(n, l.done...)
			moved = append(moved, why)
		}
	}

	return moved, nil
}

// setAside moves the file of a StuckError in dir aside, unless mayMove (nil: always) is false. damage may be nil.
func (s *Store) setAside(
	dir *folder,
	damage error,
	mayMove func() bool,
) (why string, isMoved bool, err error) {
	var stuck *StuckError
	if !errors.As(damage, &stuck) || errors.Is(damage, ErrNewer) || errors.Is(damage, errForeignOwner) {
		return "", false, nil
	}
	base := path.Base(stuck.Path)
	if dir.name(base) != stuck.Path || mayMove != nil && !mayMove() {
		return "", false, nil
	}

	err = s.disk.rename(dir, base, base+asideSuffix)
	if err == nil {
		err = s.disk.sync(dir)
	}
	cause := stuck.Why
	if stuck.Err != nil {
		cause = stuck.Err.Error()
	}
	why = fmt.Sprintf("%s is damaged (%s) and was moved aside, to %s%s", stuck.Path, cause, base, asideSuffix)

	return why, err == nil, err
}

// isWhole reports whether every target is as the newest generation made it, whatever the journal contains. Then no
// commit is half published.
func (s *Store) isWhole() bool {
	l, err := s.listing()
	if err != nil || len(l.done) == 0 {
		return false
	}
	newest := l.done[len(l.done)-1]
	m, err := s.readManifest(newest, "")
	if err != nil {
		return false
	}
	st, err := s.readStatusFile(newest)
	if err != nil {
		return false
	}

	return len(s.listDiffering(m, st)) == 0
}
