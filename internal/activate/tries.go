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

// untriedFile counts the boots whose verification ended without a verdict. The journal counts a boot when it begins to verify,
// because it may not live to say how that ended; a verdict "unknown" is no try, so it is counted here and subtracted. The file
// is about one commit, and is worth nothing for another.
const unjudgedFile = "unknown.json"

type unjudgedBoots struct {
	Gen    int       `json:"gen"`
	Commit time.Time `json:"commit_time"`
	Boots  int       `json:"boots"`          // that came to no verdict
	Last   string    `json:"last,omitempty"` // boot id of the last of them
}

// countTry counts this boot as one that begins to verify, and returns how many did and came to no end, this one included.
func (m *Machine) countTry(j *generation.Journal) (int, error) {
	counted, err := m.Store.AddTry(m.BootID)
	if err != nil {
		return 0, err
	}

	u := m.readUnjudged(j)
	if u.Last == m.BootID { // it ended without a verdict earlier in this boot, and now begins again
		u.Boots, u.Last = u.Boots-1, ""
		if err := m.writeUnjudged(u); err != nil {
			return 0, err
		}
	}

	return counted - u.Boots, nil
}

// uncountTry says that this boot's verification ended without a verdict.
func (m *Machine) uncountTry(j *generation.Journal) error {
	u := m.readUnjudged(j)
	if u.Last == m.BootID {
		return nil
	}

	u.Boots, u.Last = u.Boots+1, m.BootID

	return m.writeUnjudged(u)
}

// untried reads the file. One that is missing, cannot be read or is about another commit counts for nothing: then every boot is
// a try, which goes back too early rather than never.
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

// putUntried replaces the file, durably: a power cut must not make tries of boots that were none.
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
		_ = os.Remove(temporary) // the first error counts, and the next time begins with this
		return fmt.Errorf("tries: writing %s: %w", path, err)
	}

	folder, err := os.Open(m.StateDir)
	if err != nil {
		return fmt.Errorf("tries: %w", err)
	}
	defer folder.Close()

	return folder.Sync()
}
