package looking

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/bundle"
	"github.com/prelet/prelet/internal/app/planning"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
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
	if refused := (*app.Explained)(nil); errors.As(err, &refused) {
		err = refused.Messages
	}
	parts.Add(bundle.RecordingName, recording.String(), err)

	dir := app.RunDir
	if e.On != nil && o.Root == "" {
		dir = e.On.RunDir
	}
	for _, name := range []string{report.StatusFile, report.MetricsFile} {
		text, err := nodefile.Root(o.Root).ReadFile(filepath.Join(dir, name), nodefile.Max)
		parts.Add(name, e.Redactor.String(string(text)), err)
	}

	err = errors.New("this is not a booted node")
	journal := ""
	if o.Root == "" && systemd.IsRunning() {
		units := []string{app.BootUnit, app.ApplyUnit, app.VerifyUnit, activation.DefaultUnit}
		journal, err = systemd.ExportLog(ctx, e.Redactor.String, units...)
	}
	parts.Add("journal.export", journal, err)

	for i, line := range parts.Missing {
		parts.Missing[i] = e.Redactor.String(line)
	}
	parts.Add("missing.txt", strings.Join(append(parts.Missing, ""), "\n"), nil)

	return parts.Missing, userfile.WritePage(o.File, o.Stdout, parts.Encode)
}
