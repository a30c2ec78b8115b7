package planning

import (
	"context"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
)

// eachMachine calls do for the node of w with source "", or for each recording of the folder w.From, or each machine of
// the repository, with its path. Before each machine it calls begin. It stops at the first error of do, and when a
// signal has come. It returns the code of a command that ended with those of do.
func eachMachine(
	ctx context.Context,
	e *app.Env,
	w app.Where,
	begin func(source string),
	do func(one app.Where, source string) (fault.Code, error),
) (fault.Code, error) {
	if err := w.Check(); err != nil {
		return "", err
	}
	machines, err := listMachines(w)
	if err != nil {
		return "", err
	}
	if machines == nil {
		return do(w, "")
	}

	var lowest fault.Code
	for done, source := range machines {
		e.Count(done, len(machines))
		begin(source)
		if err := app.CheckStopped(ctx); err != nil {
			return lowest, err
		}
		code, err := do(w.On(source), source)
		lowest = fault.Lower(lowest, code)
		if err != nil {
			return lowest, err
		}
	}

	e.Count(len(machines), len(machines))

	return lowest, nil
}

// listMachines returns the recordings of the folder w.From, or the machines of the repository; nil for one node.
func listMachines(w app.Where) ([]string, error) {
	if recordings, err := app.ListRecordings(w.From); err != nil || recordings != nil {
		return recordings, err
	}

	return w.Machines(), nil
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
