package generation

import (
	"errors"
	"path"
	"slices"

	"github.com/prelet/prelet/internal/model/texts"
)

// Recover finishes or undoes an interrupted commit. It needs no network, may be interrupted at any point and called
// again, and writes nothing when there is nothing to do.
//
//	no journal      removes a generation that was staged and never committed, and temporaries of a lost journal
//	PhasePublish    brings every target to its new state, and the journal to PhaseVerify
//	PhaseRollback   finishes the rollback; the journal ends, or awaits a verdict
//	PhaseVerify     is left to the caller
//
// If the generation to publish is damaged, it restores the one before as a new generation, which awaits a verdict. If
// that is damaged too, or the touched targets are unknown, the state is set aside: see Aside.
//
// It returns the journal afterwards: nil, or one in PhaseVerify. If the phase is publish or rollback, the caller
// prevents readers from reading the targets meanwhile; Journal returns the phase. On a read-only store Recover
// removes nothing, and an interrupted commit is a fault with fault.Interrupted.
func (s *Store) Recover() (*Journal, error) {
	defer lockThread()()

	j, err := s.Journal()
	if err != nil {
		return nil, err
	}
	if s.frozen != nil { // leftovers are harmless, and cannot be removed
		if j.IsUnfinished() && errors.Is(s.frozen, ErrNewer) {
			return nil, s.stuck(s.dir.name(journalName), s.frozen)
		}
		if j.IsUnfinished() {
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
		if err := s.recoverStaged(n, j, l); err != nil {
			return nil, err
		}
	}
	if j == nil {
		s.sweepNewest(l)
		return nil, nil
	}

	return s.recoverCommit(j, l)
}

// recoverStaged removes a generation that was never committed, or the staged name of a published generation.
func (s *Store) recoverStaged(n int, j *Journal, l listing) error {
	inJournal := j != nil && j.Gen == n
	if slices.Contains(l.done, n) {
		if inJournal && j.IsUnfinished() {
			return nil
		}
		s.sweepTemps(n)
		if err := s.disk.sync(s.gens); err != nil { // its writer may have died before it
			return err
		}

		return s.dropStagedName(n)
	}
	if inJournal {
		return nil
	}

	m, err := s.readManifest(n, "")
	if isStuck(err) { // it was never committed; its temporaries go with those of other generations
		if err = s.disk.remove(s.gens, itoa(n)+stagedSuffix); err == nil {
			err = s.disk.sync(s.gens)
		}
		return err
	}
	if err != nil {
		return err
	}

	return s.undoStaging(m)
}

// recoverCommit finishes the commit of a journal. A power cut must not leave a target newer than its commit, so it
// first makes the commit durable: the process that recorded it may have died before its fsync.
func (s *Store) recoverCommit(j *Journal, l listing) (*Journal, error) {
	if !j.IsUnfinished() {
		s.sweepNewest(l)
		return j, nil
	}
	if err := s.disk.sync(s.dir); err != nil {
		return nil, afterCommit(err)
	}

	m, way, err := s.findGoal(j)
	switch {
	case err != nil:
	case way != nil:
		_, err = s.commitAnyway(way.c, way.p, way.restores, way.j)
	default:
		err = s.publish(m, j, false)
	}
	if err != nil && !isDamaged(err) {
		return nil, afterCommit(err)
	}
	s.examine() // also what did not matter until now

	return s.Journal()
}

// scratchName matches the temporary of a small file that another part of prelet keeps in the state folder, and the
// count of tries of 0.1.0.
var scratchName = texts.LazyRegexp(`^\..+\.json\.[0-9]+$|^unknown\.json(\.tmp)?$`)

// sweep removes temporaries in the state folder that a killed run left.
func (s *Store) sweep(l listing) error {
	names, err := listNames(s.dir)
	if err != nil {
		return err
	}
	ours := []string{journalName + tmpSuffix, journalName + stagedSuffix, heldName + tmpSuffix}
	for _, n := range names {
		if slices.Contains(ours, n) || scratchName().MatchString(n) {
			if err := s.disk.remove(s.dir, n); err != nil {
				return err
			}
		}
	}
	for _, n := range l.temps {
		if err := s.disk.remove(s.gens, n); err != nil {
			return err
		}
	}

	return nil
}

func (s *Store) sweepNewest(l listing) {
	if n := len(l.done); n > 0 {
		s.sweepTemps(l.done[n-1])
	}
}

// sweepTemps removes the temporaries of all generations next to the targets of one. No journal may need them: it was
// damaged or lost, with the state folder or alone, or the staged generation that lists them was. An error does not stop
// a run.
func (s *Store) sweepTemps(gen int) {
	m, err := s.readManifest(gen, "")
	if err == nil {
		s.sweepFolders(m)
	}
}

func (s *Store) sweepFolders(m *manifest) {
	isSwept := map[string]bool{}
	for _, e := range m.Entries {
		if at := path.Dir(e.Path); !isSwept[at] {
			isSwept[at] = true
			s.sweepFolder(at)
		}
	}
}

func (s *Store) sweepFolder(at string) {
	dir, err := s.openFolder(at)
	if err != nil {
		return
	}
	defer dir.close()

	names, _ := listNames(dir) // what cannot be listed has nothing that can be removed
	for _, name := range names {
		if isTempName(name) {
			_ = s.removeDurably(dir, name) // what stays is harmless
		}
	}
}
