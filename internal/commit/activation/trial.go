package activate

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// UnitFile is a unit file or a drop-in of the kubelet that a change writes or removes.
type UnitFile struct {
	Path    string
	Content []byte // as it shall be
	Gone    bool
}

// UnitFilesOf returns the files of a unit among the entries of a commit. read returns a content by its hash.
func UnitFilesOf(unit string, entries []generation.Entry, read func(sha string) ([]byte, error)) (out []UnitFile) {
	for _, e := range entries {
		name := nameInUnits(e.Path)
		if name != unit && !strings.HasPrefix(name, unit+".d/") || e.Old.Equal(e.New) {
			continue
		}
		f := UnitFile{Path: e.Path, Gone: e.New.Kind == generation.Absent}
		if e.New.Kind == generation.File {
			var err error
			if f.Content, err = read(e.New.SHA256); err != nil {
				continue // the commit reads it as well, and fails
			}
		} else if !f.Gone {
			continue // a folder
		}
		out = append(out, f)
	}

	return out
}

// nameInUnits returns the name of a file below a folder of units; "" for another file.
func nameInUnits(path string) string {
	_, name, _ := strings.Cut(path, "/systemd/system/")
	return name
}

// trialMark is the first line of each file of a trial.
const trialMark = "# prelet asks systemd what this file does, before it is committed. It goes by itself.\n"

// tryUnitFiles lets systemd read the kubelet's unit as a change is going to make it: what refuses that unit may stand in the
// change. The files lie where systemd looks first, on a tmpfs, so that nothing of the node changes and a reboot ends it. They
// stay until systemd reads the committed ones: a kubelet that could not be stopped until now can be then. It reports whether
// they are in force; where that folder cannot be written, the unit is judged as it is.
// Source: systemd.unit(5), "Unit File Load Path".
func (m *Machine) tryUnitFiles(ctx context.Context, files []UnitFile) (tried bool, err error) {
	for _, f := range files {
		name := nameInUnits(f.Path)
		if f.Gone && !strings.Contains(name, "/") {
			continue // what is below it in the load path counts then; an empty unit would be another one
		}
		at := filepath.Join(m.TrialDir, name)
		if _, err := os.Lstat(at); err == nil {
			continue // somebody's own, which stays above what is committed
		}
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil { // for root alone, as the file itself may be
			err = replace.File(at, 0o600, append([]byte(trialMark), f.Content...))
		}
		if err != nil {
			m.note("reload", "notice", "%s is judged as it is, for its files cannot be tried: %v", name, err)
			return false, m.cancelTrial(ctx)
		}
		tried = true
	}

	if !tried {
		return false, nil
	}

	if err := m.Units.Reload(ctx); err != nil {
		m.endTrial()
		return false, err
	}

	return true, nil
}

// endTrial removes the files of a trial, and reports whether there were any: systemd has to read its unit files then.
func (m *Machine) endTrial() (ended bool) {
	if m.TrialDir == "" {
		return false
	}

	_ = filepath.WalkDir(m.TrialDir, func(path string, d fs.DirEntry, err error) error { // a missing folder has no trial
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if text, err := nodefile.ReadFile(path, generation.MaxContent+int64(len(trialMark))); err == nil && bytes.HasPrefix(text, []byte(trialMark)) {
			if err := os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
				ended = true
				if dir := filepath.Dir(path); dir != m.TrialDir { // which prelet's units need, to be writable there
					_ = os.Remove(dir) // stays where it has other files
				}
			}
		}

		return nil
	})

	return ended
}

// cancelTrial ends a trial of files that are not committed.
func (m *Machine) cancelTrial(ctx context.Context) error {
	if !m.endTrial() {
		return nil
	}

	return m.Units.Reload(context.WithoutCancel(ctx))
}
