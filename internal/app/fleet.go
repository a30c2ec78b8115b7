package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
)

// listRecordings returns the recordings of a folder by name, at least one; nil where from is not a folder.
func listRecordings(from string) ([]string, error) {
	if st, err := os.Stat(from); from == "" || err != nil || !st.IsDir() {
		return nil, nil
	}

	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, failure(fault.Usage, "--from %s: %s", from, err)
	}
	var out []string
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasSuffix(name, ".prelet") || strings.HasSuffix(name, ".prelet.gz") {
			out = append(out, filepath.Join(from, name))
		}
	}
	if len(out) == 0 {
		hint := ""
		if _, err := os.Stat(filepath.Join(from, "sys")); err == nil {
			hint = "; it is a recorded machine: use --hardware"
		}
		return nil, failure(fault.Usage,
			"--from %s: this folder has no recording (*.prelet, *.prelet.gz)%s", from, hint)
	}

	return out, nil
}

// eachRecording calls do for the node of w with source "", or for each recording of the folder w.From with its path.
// Before each recording it calls begin. It stops at the first error of do, and when a signal has come. It returns the
// code of a command that ended with those of do.
func eachRecording(
	ctx context.Context,
	w Where,
	begin func(source string),
	do func(one Where, source string) (fault.Code, error),
) (fault.Code, error) {
	if err := w.check(); err != nil {
		return "", err
	}
	recordings, err := listRecordings(w.From)
	if err != nil {
		return "", err
	}
	if recordings == nil {
		return do(w, "")
	}

	var lowest fault.Code
	for _, source := range recordings {
		begin(source)
		if err := checkStopped(ctx); err != nil {
			return lowest, err
		}
		one := w
		one.From = source
		code, err := do(one, source)
		lowest = fault.Lower(lowest, code)
		if err != nil {
			return lowest, err
		}
	}

	return lowest, nil
}

// MergeFleet merges the partial results of `plan --shard` into one report.
func (e *Env) MergeFleet(paths []string) (*fleet.Report, error) {
	var parts []*fleet.Report
	for _, path := range paths {
		text, err := userfile.ReadInput(path, fleet.MaxPart)
		if err != nil {
			return nil, failure(fault.Usage, "%s: %s", path, err)
		}
		part, err := fleet.Decode(text)
		if err != nil {
			return nil, failure(fault.RecordingInvalid, "%s: %s", path, err)
		}
		parts = append(parts, part)
	}

	return fleet.Merge(parts, paths)
}
