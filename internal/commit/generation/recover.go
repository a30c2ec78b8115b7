package generation

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Recover finishes or undoes what a crash left. It needs no network, may be interrupted at any point and called again, and
// writes nothing when there is nothing to do.
//
//	no journal      what was staged and never committed is removed, and temporaries of a commit whose journal is gone
//	PhasePublish    every target is brought to its new state, and the journal to PhaseVerify
//	PhaseRollback   finished; the journal ends, or awaits a verdict
//	PhaseVerify     left to the caller
//
// It returns the journal that stands afterwards: nil, or one in PhaseVerify. A caller whose targets are read by
// somebody asks Journal first, and keeps readers out when the phase is publish or rollback. On a read-only store
// nothing that is left over is removed, and an interrupted commit is an error with fault.Interrupted. A target that
// is neither old nor new is a *StuckError, and nothing was touched.
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
	if s.frozen != nil { // what is left over endangers nobody, and cannot be removed
		if j != nil && j.Phase != PhaseVerify {
			return nil, afterCommit(s.frozen)
		}
		return j, nil
	}
	l, err := s.listing()
	if err != nil {
		return nil, err
	}
	if err := s.sweep(l); err != nil {
		return nil, err
	}
	for _, n := range l.staged {
		if slices.Contains(l.done, n) { // committed, and published: it has its name for good
			if j == nil || j.Gen != n || j.Phase == PhaseVerify {
				s.sweepTargets([]int{n})
				if err := s.disk.sync(s.gens); err != nil { // whoever gave it that name may not have lived to fsync
					return nil, err
				}
				if err := s.disk.unlink(s.gens, itoa(n)+stagedSuffix); err != nil {
					return nil, err
				}
			}
			continue
		}
		if j != nil && j.Gen == n {
			continue
		}
		m, err := s.manifest(n, "")
		if err != nil {
			return nil, s.stuckStaging(n, err)
		}
		if err := s.undoStaging(m); err != nil {
			return nil, err
		}
	}
	if isUnnamed(j, l) { // adopted, and interrupted just then
		err := s.disk.sync(s.dir) // as below
		if err == nil {
			err = s.giveName(j.Gen)
		}
		if err != nil {
			return nil, afterCommit(err)
		}
	}
	if j == nil || j.Phase == PhaseVerify {
		s.sweepTargets(l.done[max(0, len(l.done)-1):])
		return j, nil
	}
	// Whoever recorded the commit may not have lived to fsync it, and no target may be more durable than the commit.
	if err := s.disk.sync(s.dir); err != nil {
		return nil, afterCommit(err)
	}
	m, err := s.manifest(j.Gen, j.Manifest)
	if errors.Is(err, ErrNoGeneration) {
		return nil, s.stuckUntil(s.dir.name(journalName), "it speaks of generation "+itoa(j.Gen)+", which is missing", nil,
			s.removeTemps(j.Gen), aside(s.dir.name(journalName)))
	}
	if err != nil {
		return nil, err
	}
	if err := s.publish(m, nil); err != nil {
		return nil, s.markOutdated(j, afterCommit(err))
	}
	if j.Phase == PhaseRollback {
		if err := s.finishRollback(j); err != nil {
			return nil, afterCommit(err)
		}
		return s.Journal()
	}
	return s.published(m, j)
}

// removeTemps is the command that removes the temporaries of a generation that cannot be read.
func (s *Store) removeTemps(n int) string {
	root := quoted(cmp.Or(s.o.Root, "/"))

	return fmt.Sprintf("find %s -path /proc -prune -o -name '.prelet-%d-*%s' -exec rm {} +", root, n, tmpSuffix)
}

// isUnnamed says whether a generation that awaits a verdict is only staged: no way but Adopt leads there.
func isUnnamed(j *Journal, l listing) bool {
	return j != nil && j.Phase == PhaseVerify && slices.Contains(l.staged, j.Gen) && !slices.Contains(l.done, j.Gen)
}

// stuckStaging is for a generation that was made ready, never committed, and cannot be read any more.
func (s *Store) stuckStaging(n int, err error) error {
	var stuck *StuckError
	if errors.As(err, &stuck) {
		return s.stuckUntil(stuck.Path, stuck.Fault.Why+", and was never committed", stuck.Fault.Err, s.removeTemps(n), "rm "+quoted(stuck.Path))
	}

	return err
}

// sweep removes temporaries of our own folders that a killed run left.
func (s *Store) sweep(l listing) error {
	have, err := names(s.dir)
	if err != nil {
		return err
	}
	for _, n := range have {
		if n == journalName+tmpSuffix || n == heldName+tmpSuffix || isScratch(n) {
			if err := s.disk.unlink(s.dir, n); err != nil {
				return err
			}
		}
	}
	for _, n := range l.temps {
		if err := s.disk.unlink(s.gens, n); err != nil {
			return err
		}
	}
	return nil
}

// sweepTargets removes temporaries beside targets that no journal speaks of any more: somebody moved the journal
// aside in the middle of a publish. Only those of a generation that is kept are known to be ours: recovery looks for
// those of the newest, and Collect for those of generations that go. One that cannot be removed is no reason to stop.
func (s *Store) sweepTargets(gens []int) {
	temps := map[string][]string{} // by folder
	for _, n := range gens {
		m, err := s.manifest(n, "")
		if err != nil {
			continue
		}
		for _, t := range m.temps() {
			temps[path.Dir(t)] = append(temps[path.Dir(t)], path.Base(t))
		}
	}

	for dir, known := range temps {
		f, err := s.tree.open(dir)
		if err != nil {
			continue
		}
		_ = s.sweepFolder(f, known)
		f.close()
	}
}

func (s *Store) sweepFolder(f *folder, known []string) error {
	have, err := names(f)
	if err != nil {
		return err
	}

	removed := false
	for _, n := range have {
		if !slices.Contains(known, n) {
			continue
		}
		if err := s.disk.unlink(f, n); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}

	return s.disk.sync(f)
}

// isScratch says whether a name is .NAME.json.DIGITS: what others who keep a small file in this folder had not yet renamed.
func isScratch(name string) bool {
	stem, number, ok := strings.Cut(name, ".json.")
	return ok && len(stem) > 1 && stem[0] == '.' && number != "" && only(number, "0123456789")
}
