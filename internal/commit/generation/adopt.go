package generation

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// Adopt makes a generation of targets that are as proposed already and that the generation in place does not record:
// see Comparison.Adopts. It touches no target and no folder. Their state before prelet is unknown and cannot be
// restored. The generation awaits a verdict; with Unjudged it is good at once.
//
// Adopt returns ErrDiffers if a target is not as proposed, and ErrNothing if the generation in place records them
// already. Then it writes nothing.
//
// The journal is in PhaseVerify from the beginning, because the targets are never a mixture. Recover gives a generation
// its final name if Adopt was killed before that.
func (s *Store) Adopt(p Proposal) (gen int, err error) {
	if err := s.checkLocked("adopt"); err != nil {
		return 0, err
	}
	defer lockThread()()

	c, err := s.compareForCommit(p, "adopt")
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(c.Entries, Entry.HasChange); i >= 0 {
		return 0, refuse("adopt", c.Entries[i].Path, ErrDiffers, "plan again, and publish it")
	}
	if !c.Adopts && !p.Force {
		return 0, ErrNothing
	}

	c.adopted = true
	t, err := s.stageProposal(c, p)
	if err != nil {
		return 0, err
	}
	if p.Unjudged != nil {
		if gen, err = t.Commit(); err != nil {
			return gen, err
		}
		return gen, t.Publish() // changes no target
	}

	j := &Journal{
		Version: formatVersion,
		Phase:   PhaseVerify,
		Tries:   1,
		BootID:  s.o.BootID,
	}
	if err := t.commit(j); err != nil {
		return t.m.Gen, err
	}
	t.ended = true

	return t.m.Gen, afterCommit(s.nameCommitted(t.m.Gen))
}

// markAdopted changes a manifest to that of an adopted generation: the original state of targets without an earlier
// generation is unknown, and no folder is removed.
func (c *Comparison) markAdopted(m *manifest) {
	m.Adopted = true
	m.Folders = c.made
	m.Leaving = nil

	for i := range m.Entries {
		e := &m.Entries[i]
		if _, isManaged := c.ours[e.Path]; !isManaged && !e.Dropped {
			e.Adopted = m.Gen
		}
	}
}

// nameCommitted gives a committed generation its final name and removes the other name.
func (s *Store) nameCommitted(n int) error {
	if err := s.linkCommitted(n); err != nil {
		return err
	}

	if err := s.disk.sync(s.gens); err != nil {
		return err
	}

	return s.dropStagedName(n)
}

// KnowsBefore returns nil if the state before prelet of every target of the generation in place is known, so that
// Rollback to 0 can restore it. Otherwise it returns a fault with fault.Usage and the reason.
func (s *Store) KnowsBefore() error {
	m, st, err := s.current()
	if err != nil || m == nil {
		return err
	}

	return s.checkOriginals(m, st)
}

func (s *Store) checkOriginals(m *manifest, st *status) error {
	inPlace, _ := s.listRestorable(m, st)
	i := slices.IndexFunc(inPlace, func(e Entry) bool {
		return e.Adopted != 0 && !e.CreateOnly
	})
	if i < 0 {
		return nil
	}
	e := inPlace[i]

	return &fault.Fault{
		Code:    fault.Usage,
		Summary: "the state before prelet is not known, so it cannot be restored",
		Why: fmt.Sprintf(
			"generation %d adopted %s as it was found, or its original content is damaged",
			e.Adopted, e.Path,
		),
		Next: "roll back to another generation (prelet history lists them), or change the site",
	}
}

// whyVoid returns why an interrupted commit cannot be finished, or nil: its generation is lost or damaged, or a target
// is neither in its old nor in its new state. It is nil after an error that may pass.
func (s *Store) whyVoid(j *Journal) *StuckError {
	m, err := s.readManifest(j.Gen, j.Manifest)
	switch {
	case errors.Is(err, ErrNoGeneration):
		err = s.stuckOnFile(s.dir.name(journalName), "generation "+itoa(j.Gen)+", which it names, is missing", nil)
	case err == nil:
		_, err = s.listOutdated(m, false)
	}

	return s.markVoid(err)
}

// markVoid returns the error of a commit that cannot be finished, with its journal, or nil for other errors.
func (s *Store) markVoid(err error) *StuckError {
	var stuck *StuckError
	if !errors.As(err, &stuck) || errors.Is(err, ErrNewer) {
		return nil
	}
	stuck.Journal = s.dir.name(journalName)

	return stuck
}

// Void reports whether a journal is about an interrupted commit that cannot be finished: its generation is damaged, or
// the state folder or a target was restored from a backup or edited. The targets may be a mixture. Adopt and Begin
// replace it. j may be nil.
func (s *Store) Void(j *Journal) bool {
	return j.IsUnfinished() && s.whyVoid(j) != nil
}

// IsVoid reports whether an error of Recover is about such a commit.
func IsVoid(err error) bool {
	var stuck *StuckError

	return errors.As(err, &stuck) && stuck.Journal != ""
}
