package app

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// RecordingFile is the recording of the last run, in the run folder, which is empty after a boot.
const RecordingFile = "recording.prelet"

// keepRecording keeps the recording of a run for the group that the site names, or removes an older one where it names
// none. A plan with errors that names no group changes nothing: its prelet block may not have been read. A failure is a
// note of the run, because the node is as the site wants it without this file.
func (p *planner) keepRecording(plan *boot.Plan) {
	if plan == nil || p.node == nil {
		return
	}

	path := filepath.Join(p.Host.RunDir, RecordingFile)
	var err error
	switch {
	case plan.Group != "" && plan.Tape != nil:
		err = p.writeRecordingFor(plan, path)
	case plan.Group == "" && !plan.Diagnostics.HasErrors():
		err = atomicfile.Remove(path)
	}
	if err != nil {
		p.Report.Note(fault.CannotWrite, "the recording for others could not be kept: "+err.Error())
	}
}

// writeRecordingFor writes the recording of a plan, without what `prelet record` leaves out, for a group to read. A
// reader sees the old file or the new one. If the new one cannot be written, the old one is removed: it is not of the
// last run.
func (p *planner) writeRecordingFor(plan *boot.Plan, path string) error {
	const mode = 0o640

	fresh := path + ".new"
	gid, err := nodefile.Root(p.Host.Root).FindID(nodefile.Groups, plan.Group)
	if err != nil {
		err = errors.New("group " + plan.Group + ": " + err.Error())
		return errors.Join(err, atomicfile.Remove(path))
	}

	r := p.node.Recording(plan)
	err = r.Withhold()
	if err == nil {
		err = atomicfile.With(fresh, 0o600, r.Encode)
	}
	if err == nil {
		err = os.Chown(fresh, -1, gid)
	}
	if err == nil {
		err = os.Chmod(fresh, mode)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, atomicfile.Remove(fresh), atomicfile.Remove(path))
	}

	return nil
}
