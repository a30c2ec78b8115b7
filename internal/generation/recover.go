package generation

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Recover finishes or undoes what a crash left. It needs no network, may be interrupted at any point and called again, and
// writes nothing when there is nothing to do.
//
//	no journal      what was staged and never committed is removed
//	PhasePublish    every target is brought to its new state, and the journal to PhaseVerify
//	PhaseRollback   finished; the journal ends
//	PhaseVerify     left to the caller
//
// It returns the journal that stands afterwards: nil, or one in PhaseVerify. A caller whose targets are read by somebody asks
// Journal first, and keeps readers out when the phase is publish or rollback. A target that is neither old nor new is a
// *StuckError, and nothing was touched.
func (s *Store) Recover() (*Journal, error) {
	if err := s.mayWrite("recover"); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j, err := s.Journal()
	if err != nil {
		return nil, err
	}
	st, err := s.staging()
	if err != nil {
		return nil, err
	}
	if err := s.sweep(); err != nil {
		return nil, err
	}
	if st != nil && (j == nil || j.Gen != st.Gen) {
		if err := s.undoStaging(st); err != nil {
			return nil, err
		}
		st = nil
	}
	if j == nil {
		return nil, nil
	}
	if j.Phase == PhaseVerify {
		if st != nil {
			if err := s.disk.unlink(s.dir, stagingName); err != nil {
				return nil, err
			}
			return j, s.disk.sync(s.dir)
		}
		return j, nil
	}
	m, err := s.manifest(j.Gen, j.Manifest)
	if errors.Is(err, ErrNoGeneration) {
		return nil, &StuckError{Path: s.dir.name(journalName), Why: "it speaks of generation " + itoa(j.Gen) + ", whose folder is missing", Hint: "restore the state folder from a backup, or bring the targets in place by hand and move it aside"}
	}
	if err != nil {
		return nil, err
	}
	if err := s.publish(m, nil); err != nil {
		return nil, afterCommit(err)
	}
	if j.Phase == PhaseRollback {
		return nil, afterCommit(s.finishRollback(j))
	}
	if err := s.toVerify(j); err != nil {
		return nil, afterCommit(err)
	}
	return j, nil
}

// sweep removes temporaries of our own folder that a killed run left.
func (s *Store) sweep() error {
	if err := s.sweepFolder(s.dir, journalName, stagingName, heldName); err != nil {
		return err
	}
	all, err := s.numbers()
	if err != nil {
		return err
	}
	for _, n := range all {
		gen, err := s.gen(n)
		if err != nil {
			return err
		}
		err = s.sweepFolder(gen, statusName, reportName)
		gen.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sweepFolder(f *folder, of ...string) error {
	have, err := names(f)
	if err != nil {
		return err
	}
	for _, n := range have {
		if base, ok := strings.CutSuffix(n, tmpSuffix); ok && slices.Contains(of, base) {
			if err := s.disk.unlink(f, n); err != nil {
				return err
			}
		}
	}
	return nil
}
