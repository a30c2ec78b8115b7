package looking

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

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

// Bundle collects the parts of a report of a bug: a recording, the files of the last run, and the journal of this boot.
// It contains no secrets: each text passes the redactor, which knows those that the recording has read. It returns what
// could not be added, with the reason.
func Bundle(ctx context.Context, e *app.Env, o BundleOptions) (missing []string, err error) {
	if o.File != "-" && !bundle.IsNamed(o.File) {
		return nil, fault.Usage.Errorf("%s: a bundle's name ends in .tar.gz; - is standard output", o.File)
	}

	var parts bundle.Bundle
	var recording strings.Builder
	_, err = planning.Record(ctx, e, planning.RecordOptions{Where: o.Where, File: "-", Stdout: &recording})
	if stopped := app.CheckStopped(ctx); stopped != nil || fault.CodeOf(err) == fault.Usage {
		return nil, cmp.Or(stopped, err)
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
		journal, err = systemd.ExportLog(ctx, e.Redactor.String, units...)
	}
	parts.Add("journal.export", journal, err)

	for i, line := range parts.Missing {
		parts.Missing[i] = e.Redactor.String(line)
	}
	parts.Add("missing.txt", strings.Join(append(parts.Missing, ""), "\n"), nil)

	return parts.Missing, userfile.WritePage(o.File, o.Stdout, parts.Encode)
}
