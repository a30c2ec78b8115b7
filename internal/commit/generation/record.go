package generation

import "slices"

// Record makes a generation of targets that are as proposed already and that the generation in place does not record:
// see Comparison.Unrecorded. It touches no target and no folder. The generation awaits a verdict; with Unjudged it is
// good at once.
//
// Record returns ErrDiffers if a target is not as proposed, and ErrNothing if the generation in place records them
// already. Then it writes nothing.
//
// The journal is in PhaseVerify from the beginning, because the targets are never a mixture. Recover gives a generation
// its final name if Record was killed before that.
func (s *Store) Record(p Proposal) (gen int, err error) {
	if err := s.checkLocked("record"); err != nil {
		return 0, err
	}
	defer lockThread()()

	c, err := s.compareForCommit(p, "record")
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(c.Entries, Entry.HasChange); i >= 0 {
		return 0, refuse("record", c.Entries[i].Path, ErrDiffers, "plan again, and publish it")
	}
	if !c.Unrecorded && !p.Force {
		return 0, ErrNothing
	}

	c.keepsFolders = true
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
