// Package fleets plans a site over one node or many, compares it with other sites and newer kubelets, and groups nodes
// by the effect. It writes nothing.
package fleets

import (
	"context"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
)

// PlanOptions are the node or the recordings to plan, and what to compare the plans with.
type PlanOptions struct {
	lab.Request
	// Against are other sites, each its layers with commas between them, or a revision of git: a report for each lists
	// the site's changes relative to it. None reports the site's changes on the disks.
	Against []string
	Shard   string // I/N: this part of the recordings of a folder; "" is all of them
	// Each asks for the plans of a folder, not only for their groups.
	Each bool
	// Report is set where the caller asked for a report of several machines, so that one node is refused.
	Report bool
	// Explains is set where the plan of one node is explained: see evaluate.RunInput.
	Explains bool
}

// Plans is the result of the command over all its nodes.
type Plans struct {
	Reports []*fleet.FleetEffect // of a folder, or of each comparison; else none
	// Changes is set where no plan failed, and one would change something or is not complete.
	Changes bool
	Noted   bool       // a plan has a warning or a note
	Code    fault.Code // of the command; "" where every plan has been made
}

// Plan evaluates the site over the node of o or, where o.From is a folder, over each recording in it. It writes
// nothing. show gets the plan of one node, and with o.Each the plan of each recording in their order; an error of show
// ends the command. A failure over one node is the error, a failure over one recording of a folder is in the report,
// and in its Planned.
func Plan(ctx context.Context, e *machine.Env, o PlanOptions, show func(planning.Planned) error) (Plans, error) {
	sources, err := lab.ListMachines(o.Request)
	if err != nil {
		return Plans{}, err
	}
	switch {
	case sources == nil && o.Shard != "":
		return Plans{}, fault.Usage.Errorf("--shard %s: --from must be a folder of recordings", o.Shard)
	case sources == nil && len(o.Against) == 0 && o.Report:
		return Plans{}, fault.Usage.Errorf(
			"--names, --summary and -o markdown are for many machines: --from must be a folder of recordings")
	case sources != nil || len(o.Against) > 0:
		return planFleet(ctx, e, o, sources, show)
	}

	p, err := planning.Node(ctx, e, o.Request, o.Explains)
	if err != nil {
		return Plans{}, err
	}
	code := origin.Code(p.Plan.Diagnostics)
	isChange := p.View.Changes() || !p.Plan.Complete

	return Plans{Changes: code == "" && isChange, Noted: len(p.Plan.Diagnostics) > 0, Code: code}, show(p)
}

// Merge merges the partial results of `plan --shard` into one report.
func Merge(e *machine.Env, paths []string) (*fleet.FleetEffect, error) {
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
