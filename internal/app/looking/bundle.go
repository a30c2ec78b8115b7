package looking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/bundle"
	"github.com/prelet/prelet/internal/app/planning"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/report"
)

// BundleOptions are the node and the file of a bundle.
type BundleOptions struct {
	app.Where
	File   string    // NAME.tar.gz; "-" is Stdout
	Stdout io.Writer // gets the bundle, byte for byte
}

// clusterTime is how long a recording may wait for servers that do not answer. Their failure is recorded as well.
const clusterTime = 30 * time.Second

// Bundle collects the parts of a report of a bug: a recording, the files of the last run, and the journal of this boot.
// It contains no secrets: each text passes the redactor, which knows those that the recording has read. It returns what
// could not be added, with the reason.
func Bundle(ctx context.Context, e *app.Env, o BundleOptions) (missing []string, err error) {
	if o.File != "-" && !bundle.IsNamed(o.File) {
		return nil, fault.Usage.Errorf("%s: a bundle's name ends in .tar.gz; - is standard output", o.File)
	}

	var parts bundle.Bundle
	var recording strings.Builder
	e.Say(fmt.Sprintf("collecting: the cluster may take %s", clusterTime))
	toRecord, cancel := context.WithTimeout(ctx, clusterTime)
	defer cancel()
	_, err = planning.Record(toRecord, e, planning.RecordOptions{Where: o.Where, File: "-", Stdout: &recording})
	if fault.CodeOf(err) == fault.Usage {
		return nil, err
	}
	stopped := app.CheckStopped(ctx)
	if stopped != nil {
		err = errors.New("stopped by a signal before it was complete")
	}
	refused := (*app.Explained)(nil)
	isRefused := errors.As(err, &refused)
	if !isRefused {
		parts.Add(bundle.RecordingName, recording.String(), err)
	} else {
		for _, d := range refused.Messages {
			parts.Add(bundle.RecordingName, "", errors.New(origin.OneLine(d)))
		}
	}

	h, err := e.HostOf(o.Root, false)
	if err != nil {
		return nil, err
	}
	defer h.Units.Close()
	for _, name := range []string{report.StatusFile, report.MetricsFile} {
		text, err := h.RunRoot.ReadFile(filepath.Join(h.RunDir, name), nodefile.Max)
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			failed.Path = filepath.Join("/", string(h.RunRoot), failed.Path)
		}
		parts.Add(name, e.Redactor.String(string(text)), err)
	}

	err = errors.New("this is not a booted node")
	journal := ""
	if h.Systemd {
		units := append(unitfile.PreletUnits(), h.KubeletUnit())
		toExport, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTime(stopped))
		defer cancel()
		journal, err = systemd.ExportLog(toExport, e.Redactor.String, units...)
	}
	parts.Add("journal.export", journal, err)

	for i, line := range parts.Missing {
		parts.Missing[i] = e.Redactor.String(line)
	}
	parts.Add("missing.txt", strings.Join(append(parts.Missing, ""), "\n"), nil)

	err = userfile.WritePage(o.File, o.Stdout, parts.Encode)
	if stopped != nil && err == nil {
		err = fault.Interrupted.Errorf("stopped by a signal: %s has what was read until then", o.File)
	}

	return parts.Missing, err
}

// journalTime is how long the journal may take: a command that was stopped ends within two seconds.
func journalTime(stopped error) time.Duration {
	if stopped != nil {
		return time.Second
	}

	return time.Minute
}
