package generation

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// NoteAdopted is Journal.Note of a generation that was adopted, where the proposal has none.
const NoteAdopted = "adopted"

// Adopt makes a generation of targets that all are as proposed already, and that no generation in place records so:
// see Comparison.Adopts. It touches no target and no folder. What they were before prelet is unknown, so that nothing
// goes back to that. The generation awaits a verdict; with Unjudged it is good at once.
//
// When a target is not as proposed it is ErrDiffers, and when the generation in place records them as they are
// ErrNothing; nothing was written then.
//
// The journal is in PhaseVerify from its first moment: there is no instant at which a reader would see a mixture. A
// generation that is killed before it has its name gets it from Recover.
func (s *Store) Adopt(p Proposal) (gen int, err error) {
	if err := s.mayWrite("adopt"); err != nil {
		return 0, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	c, err := s.compareFree(p, "adopt")
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(c.Entries, Entry.changes); i >= 0 {
		return 0, NewFault(fault.CannotWrite, "adopt", c.Entries[i].Path, ErrDiffers, "plan again, and publish it")
	}
	if !c.Adopts && !p.Force {
		return 0, ErrNothing
	}

	c.adopted = true
	t, err := s.stageProposal(c, p)
	if err != nil {
		return 0, err
	}
	if t.note == "" {
		t.note = NoteAdopted
	}
	if p.Unjudged != nil {
		if gen, err = t.Commit(); err != nil {
			return gen, err
		}
		return gen, t.Publish() // nothing of it changes
	}

	j := &Journal{Version: formatVersion, Phase: PhaseVerify, Note: t.note, Tries: 1, BootID: s.o.BootID}
	if err := t.commit(j); err != nil {
		return t.m.Gen, err
	}
	t.ended = true

	return t.m.Gen, afterCommit(s.giveName(t.m.Gen))
}

// adopt makes the manifest of a generation one that was adopted: targets that no generation before had are of unknown
// origin, and no folder goes.
func (c *Comparison) adopt(m *manifest) {
	m.Adopted = true
	m.Folders, m.Leaving = c.made, nil

	for i := range m.Entries {
		e := &m.Entries[i]
		if _, ours := c.ours[e.Path]; !ours && !e.Dropped {
			e.Adopted = m.Gen
		}
	}
}

// giveName gives a generation that was committed its name for good. The other name goes when this one is durable.
func (s *Store) giveName(n int) error {
	if err := s.unstage(n); err != nil {
		return err
	}
	if err := s.disk.sync(s.gens); err != nil {
		return err
	}

	return s.disk.unlink(s.gens, itoa(n)+stagedSuffix)
}

// KnowsBefore is nil when it is known what every target of the generation in place was before prelet, so that
// Rollback to 0 can bring it back; else a Fault with fault.Usage that says why not.
func (s *Store) KnowsBefore() error {
	m, st, err := s.current()
	if err != nil || m == nil {
		return err
	}

	return s.knowsBefore(m, st)
}

func (s *Store) knowsBefore(m *manifest, st *status) error {
	inPlace, _ := s.liveKnown(m, st)
	i := slices.IndexFunc(inPlace, func(e Entry) bool { return e.Adopted != 0 && !e.CreateOnly })
	if i < 0 {
		return nil
	}

	e := inPlace[i]

	return &fault.Fault{
		Code: fault.Usage, Summary: "nobody knows what was before prelet, so there is no way back to it",
		Why:  fmt.Sprintf("generation %d adopted %s as it was found, or is damaged in what that was", e.Adopted, e.Path),
		Next: "go back to another generation (prelet history lists them), or change the site",
	}
}

// outdated says that a commit was interrupted in an earlier boot, and that some target is neither what it was then
// nor what that commit makes of it: somebody restored the state folder, or the targets, from a backup. What is in
// flight there will never be finished.
func (s *Store) outdated(j *Journal) bool {
	if j.CommitBoot == "" || s.o.BootID == "" || j.CommitBoot == s.o.BootID {
		return false
	}
	m, err := s.manifest(j.Gen, j.Manifest)
	if err != nil {
		return false
	}

	for i, e := range m.Entries {
		if !e.changes() {
			continue
		}
		if _, err := s.needs(m, i, nil); isForeign(err) {
			return true
		}
	}

	return false
}

// Outdated says whether a journal is of a commit that nobody needs to finish: it was interrupted in an earlier boot, and
// the targets were brought elsewhere since. Adopt and Begin go on over it. j may be nil.
func (s *Store) Outdated(j *Journal) bool { return j != nil && j.Phase != PhaseVerify && s.outdated(j) }

// IsOutdated says whether an error of Recover is about a commit that nobody needs to finish.
func IsOutdated(err error) bool {
	var stuck *StuckError

	return errors.As(err, &stuck) && stuck.Outdated
}

// isForeign says whether an error is about a target that could be read, and is neither old nor new.
func isForeign(err error) bool {
	var stuck *StuckError

	return errors.As(err, &stuck) && stuck.Journal != "" && stuck.Err == nil
}

// markOutdated marks the error of a recovery that nobody needs to care for.
func (s *Store) markOutdated(j *Journal, err error) error {
	var stuck *StuckError
	if isForeign(err) && errors.As(err, &stuck) {
		stuck.Outdated = s.outdated(j)
	}
	if stuck != nil && stuck.Outdated {
		stuck.Ways, stuck.Next = nil, "prelet run plans again, and goes on over that commit"
	}

	return err
}
