package generation

import (
	"errors"
	"path"
	"slices"

	"github.com/prelet/prelet/internal/model/texts"
)

// Recover finishes or undoes an interrupted commit. It needs no network, may be interrupted at any point and called
// again, and writes nothing when there is nothing to do. Open has set aside by then, or hidden, a state that cannot be
// trusted: see Aside. These are the states that both find, and their ends. A commit is a journal in PhasePublish or
// PhaseRollback. TestStates finds a script of each row:
//
//	a state folder of another user                                       refused
//	a commit, and a document of a newer version                          refused
//	a document of a newer version                                        rest
//	a state that is half set aside                                       set aside
//	a commit on a disk that cannot be written                            refused
//	a commit                                                             finished
//	a commit, and a document that it does not need is damaged            finished, then set aside
//	a commit that cannot be finished                                     taken back
//	the first commit, and it cannot be finished                          taken back, then set aside
//	a commit that can be neither finished nor taken back                 set aside
//	a damaged document                                                   set aside
//	a document that is lost                                              set aside
//	a journal of an earlier generation                                   set aside
//	a state to set aside, and it is only read or cannot be written       hidden
//	a generation that was staged                                         swept
//	a generation that has its name and its staged name                   swept
//	temporaries that no journal names                                    swept
//	a generation, judged or not                                          rest
//	a generation on a disk that cannot be written                        rest
//	a state as it was earlier                                            rest
//	no generation                                                        rest
//
// A finished publish ends in PhaseVerify; a finished rollback too, or its journal ends. A commit that is taken back
// ends in PhaseVerify of a new generation with the contents of the one before. At rest nothing is written.
//
// It returns the journal afterwards: nil, or one in PhaseVerify. If the phase is publish or rollback, the caller
// prevents readers from reading the targets meanwhile; Journal returns the phase. A refused commit on a read-only disk
// is a fault with fault.Interrupted.
func (s *Store) Recover() (*Journal, error) {
	defer lockThread()()

	j, err := s.Journal()
	if err != nil {
		return nil, err
	}
	switch {
	case s.disk.frozen == nil:
	case !j.IsUnfinished(): // leftovers are harmless, and cannot be removed
		return j, nil
	case errors.Is(s.disk.frozen, ErrNewer):
		return nil, s.CheckFinished()
	default:
		return nil, afterCommit(s.disk.frozen)
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
	if !j.IsUnfinished() {
		s.sweepTemps(lastOf(l.done))
		return j, nil
	}

	return s.recoverCommit(j)
}

// recoverStaged removes a generation that was never committed, or the staged name of a published generation.
func (s *Store) recoverStaged(n int, j *Journal, l listing) error {
	isDone := slices.Contains(l.done, n)
	inJournal := j != nil && j.Gen == n
	if inJournal && (j.IsUnfinished() || !isDone) {
		return nil
	}
	if isDone {
		if err := s.disk.sync(s.gens); err != nil { // its writer may have died before it
			return err
		}
		return s.dropStagedName(n)
	}

	m, err := s.readManifest(n, "")
	if isStuck(err) { // its temporaries go with those of other generations
		m, err = &manifest{Gen: n}, nil
	}
	if err != nil {
		return err
	}

	return s.undoStaging(m)
}

// recoverCommit finishes the commit of a journal. A power cut must not leave a target newer than its commit, so it
// first makes the commit durable: the process that recorded it may have died before its fsync.
func (s *Store) recoverCommit(j *Journal) (*Journal, error) {
	if err := s.disk.sync(s.dir); err != nil {
		return nil, afterCommit(err)
	}

	m, way, err := s.findGoal(j)
	if way != nil {
		j = way.j
		m, err = s.commitAnyway(way.c, way.p, way.restores, j)
	}
	if err == nil {
		err = s.dropTakenBack(m)
	}
	if err == nil {
		err = s.publish(m, j, way != nil)
	}
	if err != nil && !isDamaged(err) {
		return nil, afterCommit(err)
	}
	s.examine() // also what did not matter until now

	return s.Journal()
}

// scratchName matches the leftovers of a killed run in the state folder: its temporaries, a staged journal, the
// temporary of a small file that another part of prelet keeps there, and the count of tries of 0.1.0.
var scratchName = texts.LazyRegexp(
	`^(journal|held|unknown)\.json\.tmp$|^journal\.json\.staged$|^\..+\.json\.[0-9]+$|^unknown\.json$`)

// sweep removes temporaries in the state folder that a killed run left.
func (s *Store) sweep(l listing) error {
	names, err := listNames(s.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if scratchName().MatchString(n) {
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

// sweepTemps removes the temporaries of all generations next to the targets of one. No journal may need them: it was
// damaged or lost, with the state folder or alone, or the staged generation that lists them was. An error does not stop
// a run: what stays is harmless.
func (s *Store) sweepTemps(gen int) {
	m, err := s.readManifest(gen, "")
	if err == nil {
		_ = s.sweepFolders(m)
	}
}

func (s *Store) sweepFolders(m *manifest) error {
	var errs []error
	isSwept := map[string]bool{}
	for _, e := range m.Entries {
		if at := path.Dir(e.Path); !isSwept[at] {
			isSwept[at] = true
			errs = append(errs, s.sweepFolder(at))
		}
	}

	return errors.Join(errs...)
}

func (s *Store) sweepFolder(at string) error {
	dir, err := s.openFolder(at)
	if isNoFolder(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.close()

	names, err := listNames(dir)
	for _, name := range names {
		if isTempName(name) && err == nil {
			err = s.removeDurably(dir, name)
		}
	}

	return err
}
