package generation

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const journalName = "journal.json"

// Journal is the transaction in progress.
type Journal struct {
	Version  int    `json:"version"`
	Phase    Phase  `json:"phase"`
	Gen      int    `json:"gen"`               // the generation that is being put in place, or that awaits its verdict
	Manifest string `json:"manifest"`          // sha256 of its manifest
	From     int    `json:"from,omitempty"`    // the generation that a rollback or a way back leaves; else 0
	To       int    `json:"to,omitempty"`      // of a rollback: the generation that is restored; 0 as before prelet
	Why      string `json:"why,omitempty"`     // of a rollback
	HoldPlan string `json:"hold,omitempty"`    // of a rollback: the plan that it holds
	Judge    bool   `json:"judge,omitempty"`   // of a rollback: the restored files await a verdict
	Unjudged string `json:"note,omitempty"`    // PhaseVerify: boots of Tries that ended without a verdict
	Release  bool   `json:"release,omitempty"` // PhasePublish: Proposal.Release; held plans already count as released
	Tries    int    `json:"tries,omitempty"`   // PhaseVerify: boots that began a verification, including this one
	BootID   string `json:"boot_id,omitempty"` // PhaseVerify: of the last try
	// CommitMono is StoreConfig.Mono at the end of Publish, or at the first AddTry of a later boot. A process that
	// started earlier in boot BootID cannot have read the new files. CommitTime is the wall clock at Commit; with Gen
	// it identifies the transaction. After a commit that changed no target CommitMono is 0.
	CommitMono int64     `json:"commit_mono,omitempty"`
	CommitTime time.Time `json:"commit_time"`
	CommitBoot string    `json:"commit_boot,omitempty"` // boot of Commit
}

// Same reports whether two journals are about the same commit in the same phase. A caller that judged without the lock
// checks this before it acts on its verdict. Either may be nil.
func (j *Journal) Same(o *Journal) bool {
	if j == nil || o == nil {
		return j == o
	}

	return j.Phase == o.Phase && j.Gen == o.Gen && j.CommitTime.Equal(o.CommitTime)
}

// IsUnfinished reports whether the targets may be a mixture of old and new ones. j may be nil.
func (j *Journal) IsUnfinished() bool {
	return j != nil && j.Phase != PhaseVerify
}

// CountTries returns the number of boots that began a verification and did not finish it, including this one. A boot
// whose verification ended without a verdict does not count. Versions before 0.2.0 ignore these, and roll back too
// early rather than never.
func (j *Journal) CountTries() int {
	return j.Tries - len(strings.Fields(j.Unjudged))
}

func parseJournal(b []byte) (*Journal, error) {
	j, err := decode[Journal](b)
	if err != nil {
		return nil, err
	}

	switch j.Phase {
	case PhasePublish, PhaseVerify, PhaseRollback:
		return j, nil
	}

	return nil, explainNewer(j.Version, fmt.Errorf("unknown phase %q", j.Phase))
}

// Journal returns the transaction in progress, or nil. A journal that cannot be read, or that a newer version wrote, is
// a fault with fault.NeedsPerson.
func (s *Store) Journal() (*Journal, error) {
	if s.dir == nil || s.hidden != nil {
		return nil, nil
	}

	return readDocument(s, s.dir, journalName, parseJournal)
}

// Abandoned returns the journal of a commit that is incomplete and that no process finishes: the lock, which ends with
// its process, is free. It returns nil if there is none, or if this user may not read it. It is meant for a store that
// was opened read-only.
func (s *Store) Abandoned() *Journal {
	if s.dir == nil {
		return nil
	}
	if unix.Flock(s.dir.fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return nil
	}
	defer func() { _ = unix.Flock(s.dir.fd, unix.LOCK_UN) }() // other processes try again every few milliseconds

	j, err := s.Journal()
	if err != nil || !j.IsUnfinished() {
		return nil
	}

	return j
}

// putJournal replaces the journal durably.
func (s *Store) putJournal(j *Journal) error {
	return s.disk.replace(&syncRound{}, s.dir, journalName, encode(j))
}

// endJournal removes the journal durably.
func (s *Store) endJournal() error {
	return s.removeDurably(s.dir, journalName)
}

func (s *Store) removeDurably(dir *folder, base string) error {
	if err := s.disk.unlink(dir, base); err != nil {
		return err
	}

	return s.disk.sync(dir)
}
