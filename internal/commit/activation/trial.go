package activation

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
	Content []byte // the new content
	Gone    bool
}

// UnitFilesOf returns the files of a unit among the entries of a commit. read returns a content by its hash.
func UnitFilesOf(
	unit string, entries []generation.Entry, read func(sha string) ([]byte, error),
) (out []UnitFile) {
	for _, e := range entries {
		if !isFileOf(unit, e) {
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

// isFileOf reports whether an entry changes a file of a unit: the unit's own or a drop-in.
func isFileOf(unit string, e generation.Entry) bool {
	name := nameInUnits(e.Path)
	isOfUnit := name == unit || strings.HasPrefix(name, unit+".d/")

	return isOfUnit && !e.Old.Equal(e.New)
}

// nameInUnits returns the name of a file below a folder of units; "" for another file.
func nameInUnits(path string) string {
	_, name, _ := strings.Cut(path, "/systemd/system/")
	return name
}

// trialMark is the first line of each file of a trial.
const trialMark = "# prelet checks this file with systemd before it commits it, and then removes this copy.\n"

// tryUnitFiles makes systemd load the kubelet's unit with the planned unit files, since these may contain settings
// that refuse the change, such as RefuseManualStop=. The files are written to the folder with the highest priority,
// on a tmpfs: a reboot removes them, and no file of the node changes. They stay until systemd has loaded the
// committed files, so that a kubelet that could not be stopped before can be stopped. It reports whether they are in
// force. If the folder cannot be written, the unit is judged as it is. Source: systemd.unit(5), "Unit File Load
// Path".
func (m *Machine) tryUnitFiles(ctx context.Context, files []UnitFile) (tried bool, err error) {
	for _, f := range files {
		name := nameInUnits(f.Path)
		if f.Gone && !strings.Contains(name, "/") {
			continue // a file of lower priority takes its place; an empty unit file would not be the same
		}
		at := filepath.Join(m.TrialDir, name)
		if _, err := os.Lstat(at); err == nil {
			continue // not from prelet: it also overrides the committed file
		}
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil { // for root alone, as the file itself may be
			err = atomicfile.File(at, 0o600, append([]byte(trialMark), f.Content...))
		}
		if err != nil {
			m.note("reload", "notice", "cannot try the new files of %s, so it is checked without them: %v", name, err)
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

	// A missing folder has no trial, so errors of the walk are ignored.
	_ = filepath.WalkDir(m.TrialDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && m.removeTrialFile(path) {
			ended = true
		}
		return nil
	})

	return ended
}

// removeTrialFile removes a file if a trial wrote it, and its folder if that is empty then. TrialDir itself stays,
// because prelet's units need it to be writable.
func (m *Machine) removeTrialFile(path string) bool {
	text, err := nodefile.ReadFile(path, generation.MaxContent+int64(len(trialMark)))
	if err != nil || !bytes.HasPrefix(text, []byte(trialMark)) {
		return false
	}

	err = os.Remove(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}

	if dir := filepath.Dir(path); dir != m.TrialDir {
		_ = os.Remove(dir)
	}

	return true
}

// cancelTrial removes the files of a trial that are not committed, and makes systemd load the unit without them.
func (m *Machine) cancelTrial(ctx context.Context) error {
	if !m.endTrial() {
		return nil
	}

	return m.Units.Reload(context.WithoutCancel(ctx))
}
