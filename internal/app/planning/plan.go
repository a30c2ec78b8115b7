// Package planning evaluates a site over nodes, recordings and fleets of them, and explains the result. It writes only
// files that its caller names.
package planning

import (
	"cmp"
	"context"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/unitflags"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/printer"
)

// PlanOptions are the node or the recordings to plan, and what to compare the plans with.
type PlanOptions struct {
	app.Where
	// Against are other sites, each its layers with commas between them, or a revision of git: a report for each lists
	// the site's changes relative to it. None reports the site's changes on the disks.
	Against []string
	Shard   string // I/N: this part of the recordings of a folder; "" is all of them
	// Each asks for the plans of a folder, not only for their groups.
	Each bool
	// Report is set where the caller asked for a report of several machines, so that one node is refused.
	Report bool
	// Explains is set where the plan of one node is explained: see boot.Input.
	Explains bool
}

// Planned is the site over one node.
type Planned struct {
	printer.View        // of a recording of a folder only the Source is set where Err is
	Err          error  // why this recording has no plan, else nil
	Held         string // why a run would not apply the plan; "" where it would
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
func Plan(
	ctx context.Context, e *app.Env,
	o PlanOptions,
	show func(Planned) error,
) (Plans, error) {
	if err := o.Check(); err != nil {
		return Plans{}, err
	}
	sources, err := listMachines(o.Where)
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

	p, err := planNode(ctx, e, o.Where, o.Explains)
	if err != nil {
		return Plans{}, err
	}
	code := origin.Code(p.Plan.Diagnostics)
	isChange := p.View.Changes() || !p.Plan.Complete

	return Plans{Changes: code == "" && isChange, Noted: len(p.Plan.Diagnostics) > 0, Code: code}, show(p)
}

// planNode evaluates the site over one node, whose plan is explained or not.
func planNode(ctx context.Context, e *app.Env, w app.Where, explains bool) (Planned, error) {
	n, err := e.Open(w, nil)
	if err != nil {
		return Planned{}, err
	}
	defer n.Close()

	n.Explains = explains
	out := Planned{View: n.View(n.PlanUnless(ctx), "")}
	if origin.Code(out.Plan.Diagnostics) == fault.CredentialMissing && n.Site != nil {
		out.Plan.Diagnostics = append(findSensitive(n.Site), out.Plan.Diagnostics...)
	}
	if n.Site != nil {
		version := cmp.Or(w.KubeletVersion, out.Plan.Kubelet.KnownVersion())
		addUnitFlags(out.Plan, w, n.Site, version)
		_, judgesDropIns := node.FindFlag(out.Plan.Node.Flags, "config-dir") // else an unread file may have the flag
		if u, isHere := findUnit(out.Plan, w, n.Site, version); isHere && (w.Root != "" || !judgesDropIns) {
			addUnreported(out.Plan, u.CheckDropIns(func(string) bool { return false }))
		}
	}
	if n.Store != nil && out.Plan.Complete {
		out.Held = commit.WhyHeld(n.Store, out.Plan)
	}
	return out, nil
}

// addUnitFlags adds the faults in the flags of a plan's machine, for a version of the kubelet, that the plan does not
// report itself. It adds nothing for a recorded machine, whose files are not here.
func addUnitFlags(p *boot.Plan, w app.Where, site *lang.Site, version string) {
	if u, isHere := findUnit(p, w, site, version); isHere {
		addUnreported(p, u.CheckFlags())
	}
}

// findUnit returns the kubelet's unit on a plan's machine.
func findUnit(p *boot.Plan, w app.Where, site *lang.Site, version string) (u unitflags.Unit, isHere bool) {
	if w.From != "" || w.Root == "" && w.Hardware != "" {
		return u, false
	}
	u = unitflags.Unit{
		Root:    nodefile.Root(w.Root),
		Name:    boot.KubeletUnit(site),
		Kubelet: version,
	}
	u.Planned = unitflags.ListPlanned(u.Root, p.Node.Files)
	for _, c := range p.Changes {
		if c.Action == "delete" {
			u.Planned[c.File.Path] = nil
		}
	}

	return u, true
}

// addUnreported adds the findings that a plan does not have. An error replaces a warning of the plan about the same:
// the plan did not know whether the kubelet gets the flag.
func addUnreported(p *boot.Plan, found hcl.Diagnostics) {
	for _, d := range found {
		isSame := func(o *hcl.Diagnostic) bool { return o.Summary == d.Summary }
		at := slices.IndexFunc(p.Diagnostics, isSame)
		switch {
		case at < 0:
			p.Diagnostics = append(p.Diagnostics, d)
		case d.Severity == hcl.DiagError && p.Diagnostics[at].Severity != hcl.DiagError:
			d.Subject = p.Diagnostics[at].Subject
			p.Diagnostics[at] = d
		}
	}
}

// findSensitive returns the places of a site where a secret must not be, also if the secret is missing here.
func findSensitive(s *lang.Site) hcl.Diagnostics {
	return slices.DeleteFunc(boot.Check(
		s,
		boot.SampleMachines(),
		boot.CheckOptions{},
	), func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) != fault.Sensitive
	})
}
