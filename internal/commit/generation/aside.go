package generation

import (
	"errors"
	"fmt"
	"path"
)

// asideSuffix ends the name of a damaged file that SetAside has moved aside.
const asideSuffix = ".aside"

// SetAside moves the damaged files of the newest generation and a damaged journal aside, as if they were lost, so that
// a node does not stay down: the next run plans again. It returns the moved files with the reasons, for people. It
// moves nothing while a commit is unfinished that can be finished. Files of a newer version, and everything on a
// read-only file system, stay as well. Check reports what stays.
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
		why, isMoved, err := s.setAside(s.dir, err)
		if err != nil || !isMoved {
			return nil, err
		}
		moved = append(moved, why)
	}
	if j.IsUnfinished() && s.whyVoid(j) == nil {
		return moved, nil
	}

	for {
		_, _, damage := s.current()
		why, isMoved, failed := s.setAside(s.gens, damage)
		if !isMoved {
			return moved, failed
		}
		moved = append(moved, why)
	}
}

// setAside moves the file of a StuckError in dir aside. damage may be nil.
func (s *Store) setAside(dir *folder, damage error) (why string, isMoved bool, err error) {
	var stuck *StuckError
	if !errors.As(damage, &stuck) || errors.Is(damage, ErrNewer) {
		return "", false, nil
	}
	base := path.Base(stuck.Path)
	if dir.name(base) != stuck.Path {
		return "", false, nil
	}

	err = s.disk.remove(dir, base+asideSuffix) // an earlier one, which may be a folder
	if err == nil {
		err = s.disk.rename(dir, base, base+asideSuffix)
	}
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
