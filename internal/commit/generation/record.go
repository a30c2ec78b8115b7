package generation

import "slices"

// Record makes a generation of targets that are as proposed already and that the generation in place does not record:
// see Comparison.Unrecorded. It touches no target. The generation awaits a verdict; with Unjudged it is good at once.
//
// Record returns ErrDiffers if a target is not as proposed, and ErrNothing if the generation in place records them
// already. Then it writes nothing.
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

	t, err := s.stageProposal(c, p)
	if err != nil {
		return 0, err
	}
	if gen, err = t.Commit(); err != nil {
		return gen, err
	}

	return gen, t.Publish() // changes no target
}
