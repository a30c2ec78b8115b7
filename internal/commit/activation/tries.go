package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
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

// countTry counts this boot as an attempt to verify. If the store is read-only or full, nothing is counted, and the
// kubelet starts anyway.
func (m *Machine) countTry(j *generation.Journal, t *walkState) error {
	if m.Store.ReadOnly() != nil {
		return nil
	}

	_, err := m.Store.AddTry(m.BootID)
	if fault.CodeOf(err) == fault.CannotWrite {
		m.reportUnwritten(t, "this boot could not be counted as a try", err)
		return nil
	}

	u := m.readUnjudged(j)
	endedWithoutVerdict := u.Last == m.BootID
	if err == nil && endedWithoutVerdict {
		u.Boots--
		u.Last = ""
		m.storeUnjudged(t, u)
	}

	return err
}

// uncountTry records that this boot's verification ended without a verdict.
func (m *Machine) uncountTry(j *generation.Journal, t *walkState) {
	u := m.readUnjudged(j)
	if u.Last != m.BootID {
		u.Boots++
		u.Last = m.BootID
		m.storeUnjudged(t, u)
	}
}

// storeUnjudged writes the file. If that fails, the boot counts as a try, as in readUnjudged.
func (m *Machine) storeUnjudged(t *walkState, u unjudgedBoots) {
	if err := m.writeUnjudged(u); err != nil {
		m.reportUnwritten(t, "a boot without a verdict could not be recorded", err)
	}
}

func (m *Machine) reportUnwritten(t *walkState, what string, err error) {
	why := fmt.Sprintf("%s: %v", what, err)
	if !slices.Contains(t.unwritten, why) {
		t.unwritten = append(t.unwritten, why)
		m.note("verify", "notice", "%s", why)
	}
}

// readUnjudged reads the file. If it is missing, unreadable or of another commit, the count is 0. Then every boot is a
// try: prelet rolls back too early rather than never.
func (m *Machine) readUnjudged(j *generation.Journal) unjudgedBoots {
	none := unjudgedBoots{Gen: j.Gen, Commit: j.CommitTime}

	text, err := nodefile.ReadFile(filepath.Join(m.StateDir, unjudgedFile), nodefile.Max)
	if err != nil {
		return none
	}

	var u unjudgedBoots
	if json.Unmarshal(text, &u) != nil {
		return none
	}

	isOfCommit := u.Gen == j.Gen && u.Commit.Equal(j.CommitTime)
	if !isOfCommit || u.Boots < 0 {
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
	err = os.Remove(temporary)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		return generation.NewFault(fault.CannotWrite, "write", path, err, "")
	}

	folder, err := os.OpenFile(m.StateDir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("tries: %w", err)
	}
	defer folder.Close()

	return folder.Sync()
}
