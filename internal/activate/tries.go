package activate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/generation"
)

// unjudgedFile counts the boots whose verification ended without a verdict. The journal counts a boot when it begins to
// verify, because the boot may not survive to record its end. A verdict "unknown" is not a try, so it is counted here
// and subtracted. The file belongs to one commit and is ignored for others.
const unjudgedFile = "unknown.json"

type unjudgedBoots struct {
	Gen    int       `json:"gen"`
	Commit time.Time `json:"commit_time"`
	Boots  int       `json:"boots"`          // without a verdict
	Last   string    `json:"last,omitempty"` // boot id of the last one
}

// countTry counts this boot as one that begins to verify, and returns how many boots did so and did not finish,
// including this one. On a read-only store nothing is counted: no verdict could be stored either.
func (m *Machine) countTry(j *generation.Journal) (int, error) {
	if m.Store.ReadOnly() != nil {
		return j.Tries, nil
	}

	counted, err := m.Store.AddTry(m.BootID)
	if err != nil {
		return 0, err
	}

	u := m.readUnjudged(j)
	if u.Last == m.BootID { // ended without a verdict earlier in this boot, and begins again
		u.Boots, u.Last = u.Boots-1, ""
		if err := m.writeUnjudged(u); err != nil {
			return 0, err
		}
	}

	return counted - u.Boots, nil
}

// uncountTry records that this boot's verification ended without a verdict.
func (m *Machine) uncountTry(j *generation.Journal) error {
	u := m.readUnjudged(j)
	if u.Last == m.BootID {
		return nil
	}

	u.Boots, u.Last = u.Boots+1, m.BootID

	return m.writeUnjudged(u)
}

// readUnjudged reads the file. If it is missing, unreadable or of another commit, the count is 0. Then every boot is a
// try: prelet rolls back too early rather than never.
func (m *Machine) readUnjudged(j *generation.Journal) unjudgedBoots {
	none := unjudgedBoots{Gen: j.Gen, Commit: j.CommitTime}

	text, err := os.ReadFile(filepath.Join(m.StateDir, unjudgedFile))
	if err != nil {
		return none
	}

	var u unjudgedBoots
	if json.Unmarshal(text, &u) != nil || u.Gen != j.Gen || !u.Commit.Equal(j.CommitTime) || u.Boots < 0 {
		return none
	}

	return u
}

// writeUnjudged replaces the file durably: after a power cut unjudged boots must not count as tries.
func (m *Machine) writeUnjudged(u unjudgedBoots) (err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}

	path := filepath.Join(m.StateDir, unjudgedFile)

	temporary := path + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tries: %w", err)
	}

	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("tries: %w", err)
	}

	_, err = file.Write(text)
	if synced := file.Sync(); err == nil {
		err = synced
	}

	if closed := file.Close(); err == nil {
		err = closed
	}

	if err == nil {
		err = os.Rename(temporary, path)
	}

	if err != nil {
		_ = os.Remove(temporary) // the first error is returned, and the next call removes the file first
		return fmt.Errorf("tries: writing %s: %w", path, err)
	}

	folder, err := os.Open(m.StateDir)
	if err != nil {
		return fmt.Errorf("tries: %w", err)
	}
	defer folder.Close()

	return folder.Sync()
}
