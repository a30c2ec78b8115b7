package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/bundle"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// BundleOptions are the node and the file of a bundle.
type BundleOptions struct {
	lab.Request
	File   string    // NAME.tar.gz; "-" is Stdout
	Stdout io.Writer // gets the bundle, byte for byte
}

// clusterTime is how long a recording may wait for servers that do not answer. Their failure is recorded as well.
const clusterTime = 30 * time.Second

const journalName = "journal.export"

// Bundle collects the parts of a report of a bug: a recording, the files of the last run, and the journal of this boot.
// It contains no secrets: each text passes the redactor, which knows those that the recording has read. It returns what
// could not be added, with the reason.
func Bundle(ctx context.Context, e *machine.Env, o BundleOptions) (missing []string, err error) {
	if o.File != "-" && !bundle.IsNamed(o.File) {
		return nil, fault.Usage.Errorf("%s: a bundle's name ends in .tar.gz; - is standard output", o.File)
	}

	h, err := e.HostOf(o.Root, false)
	if err != nil {
		return nil, err
	}
	defer h.Units.Close()

	// The files of the node are read first, so that a bundle that is stopped while servers do not answer has them. The
	// recording is last, and reads the secrets that are hidden in all parts.
	var parts bundle.Bundle
	for _, name := range []string{report.StatusFile, report.MetricsFile} {
		text, err := h.RunRoot.ReadFile(filepath.Join(h.RunDir, name), nodefile.Max)
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			failed.Path = filepath.Join("/", string(h.RunRoot), failed.Path)
		}
		parts.Add(name, string(text), err)
	}
	journal, err := readJournal(ctx, h)
	parts.Add(journalName, journal, err)
	if err := addRecording(ctx, &parts, e, o.Request); err != nil {
		return nil, err
	}
	parts.Hide(func(name, text string) string {
		switch name {
		case bundle.RecordingName: // it hides its own
			return text
		case journalName:
			return systemd.HideInExport(text, e.Redactor.String)
		}

		return e.Redactor.String(text)
	})

	for i, line := range parts.Missing {
		parts.Missing[i] = e.Redactor.String(line)
	}
	parts.Add("missing.txt", strings.Join(append(parts.Missing, ""), "\n"), nil)

	err = userfile.WritePage(o.File, o.Stdout, parts.Encode)
	if machine.CheckStopped(ctx) != nil && err == nil {
		err = fault.Interrupted.Errorf("stopped by a signal: %s has what was read until then", o.File)
	}

	return parts.Missing, err
}

// readJournal returns the journal of prelet and the kubelet in this boot, in the export format.
func readJournal(ctx context.Context, h *machine.Host) (string, error) {
	if !h.Systemd {
		return "", errors.New("this is not a booted node")
	}

	return systemd.ExportLog(ctx, append(unitfile.PreletUnits(), h.KubeletUnit())...)
}

// addRecording adds a recording, which asks the cluster. It returns an error in how the command was used.
func addRecording(ctx context.Context, parts *bundle.Bundle, e *machine.Env, w lab.Request) error {
	e.Say(fmt.Sprintf("collecting: the cluster may take %s", clusterTime))
	toRecord, cancel := context.WithTimeout(ctx, clusterTime)
	defer cancel()
	var recording strings.Builder
	_, err := planning.Record(toRecord, e, planning.RecordOptions{Request: w, File: "-", Stdout: &recording})

	refused := (*lab.Explained)(nil)
	switch {
	case machine.CheckStopped(ctx) != nil:
		err = errors.New("stopped by a signal before it was complete")
	case fault.CodeOf(err) == fault.Usage:
		return err
	case errors.As(err, &refused):
		for _, d := range refused.Messages {
			parts.Add(bundle.RecordingName, "", errors.New(origin.OneLine(d)))
		}

		return nil
	}
	parts.Add(bundle.RecordingName, recording.String(), err)

	return nil
}
