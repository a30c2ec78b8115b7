package planning

import (
	"context"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
)

// eachRecording calls do for the node of w with source "", or for each recording of the folder w.From with its path.
// Before each recording it calls begin. It stops at the first error of do, and when a signal has come. It returns the
// code of a command that ended with those of do.
func eachRecording(
	ctx context.Context,
	e *app.Env,
	w app.Where,
	begin func(source string),
	do func(one app.Where, source string) (fault.Code, error),
) (fault.Code, error) {
	if err := w.Check(); err != nil {
		return "", err
	}
	recordings, err := app.ListRecordings(w.From)
	if err != nil {
		return "", err
	}
	if recordings == nil {
		return do(w, "")
	}

	var lowest fault.Code
	for done, source := range recordings {
		e.Count(done, len(recordings))
		begin(source)
		if err := app.CheckStopped(ctx); err != nil {
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

	e.Count(len(recordings), len(recordings))

	return lowest, nil
}

// MergeFleet merges the partial results of `plan --shard` into one report.
func MergeFleet(e *app.Env, paths []string) (*fleet.FleetEffect, error) {
	var parts []*fleet.FleetEffect
	for _, path := range paths {
		text, err := userfile.ReadInput(path, fleet.MaxPart)
		if err != nil {
			return nil, fault.Usage.Errorf("%s: %s", path, err)
		}
		part, err := fleet.Decode(text)
		if err != nil {
			return nil, fault.RecordingInvalid.Errorf("%s: %s", path, err)
		}
		parts = append(parts, part)
	}

	return fleet.Merge(parts, paths)
}
