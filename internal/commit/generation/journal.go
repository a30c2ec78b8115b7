package generation

import (
	"fmt"
	"time"
)

const journalName = "journal.json"

// Journal is the transaction in flight.
type Journal struct {
	Version  int    `json:"version"`
	Phase    Phase  `json:"phase"`
	Gen      int    `json:"gen"`               // the generation that is being put in place, or was and awaits a verdict
	Manifest string `json:"manifest"`          // sha256 of its manifest
	From     int    `json:"from,omitempty"`    // going back: the generation that is left, else 0
	To       int    `json:"to,omitempty"`      // going back: the one whose contents come back; 0 as before prelet
	Why      string `json:"why,omitempty"`     // going back
	HoldPlan string `json:"hold,omitempty"`    // going back: the plan that is held when it is done, or, with Judge, when that is good
	Judge    bool   `json:"judge,omitempty"`   // going back: what is in place then awaits a verdict
	Note     string `json:"note,omitempty"`    // Proposal.Note
	Release  bool   `json:"release,omitempty"` // PhasePublish: Proposal.Release; what was held counts as released
	Tries    int    `json:"tries,omitempty"`   // PhaseVerify: boots that began a verification, this one included
	BootID   string `json:"boot_id,omitempty"` // PhaseVerify: of the last try
	// CommitMono is Options.Mono at the end of Publish, or at the first AddTry of a later boot: what started earlier in boot
	// BootID cannot have read the new files. CommitTime is the wall clock at Commit; with Gen it identifies the transaction.
	// After Adopt it is 0: the files were there before.
	CommitMono int64     `json:"commit_mono,omitempty"`
	CommitTime time.Time `json:"commit_time"`
	CommitBoot string    `json:"commit_boot,omitempty"` // of Commit; "" in journals of format 1
}

// Same says whether two journals are about the same commit in the same phase: whoever judged while the lock was free asks
// this before acting on the verdict. Either may be nil.
func (j *Journal) Same(o *Journal) bool {
	if j == nil || o == nil {
		return j == o
	}
	return j.Phase == o.Phase && j.Gen == o.Gen && j.CommitTime.Equal(o.CommitTime)
}

func parseJournal(b []byte) (*Journal, error) {
	j := &Journal{}
	if err := decode(b, j, &j.Version); err != nil {
		return nil, err
	}
	switch j.Phase {
	case PhasePublish, PhaseVerify, PhaseRollback:
	default:
		return nil, fmt.Errorf("unknown phase %q", j.Phase)
	}
	if j.Gen < 1 || j.From < 0 || j.From >= j.Gen || j.To < 0 || j.To >= j.Gen || j.Tries < 0 {
		return nil, fmt.Errorf("numbers that cannot be: generation %d, from %d to %d, %d tries", j.Gen, j.From, j.To, j.Tries)
	}
	if !sha256Hex.MatchString(j.Manifest) {
		return nil, fmt.Errorf("manifest %q is no sha256", j.Manifest)
	}
	return j, nil
}

// Journal is the transaction in flight, or nil. A journal that cannot be read, or was written by a newer version, is a
// *StuckError.
func (s *Store) Journal() (*Journal, error) {
	if s.dir == nil {
		return nil, nil
	}
	j, _, err := readDocument(s, s.dir, journalName, parseJournal)
	return j, err
}

// putJournal makes a journal durable. seen is set as soon as another process could see it, even if an error follows.
func (s *Store) putJournal(j *Journal, seen *bool) error {
	return s.disk.put(s.dir, journalName, seen, encode(j))
}

// endJournal removes the journal durably.
func (s *Store) endJournal() error {
	if err := s.disk.unlink(s.dir, journalName); err != nil {
		return err
	}
	return s.disk.sync(s.dir)
}
