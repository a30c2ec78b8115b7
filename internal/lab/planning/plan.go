// Package planning evaluates a site over one node or its recording, and explains the result. It writes only files that
// its caller names.
package planning

import (
	"cmp"
	"context"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/unitcheck"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Planned is the site over one node.
type Planned struct {
	printer.View        // of a recording of a folder only the Source is set where Err is
	Err          error  // why this recording has no plan, else nil
	Held         string // why a run would not apply the plan; "" where it would
}

// Node evaluates the site over one node, whose plan is explained or not.
func Node(ctx context.Context, e *machine.Env, w lab.Request, explains bool) (Planned, error) {
	n, err := lab.Open(e, w, nil)
	if err != nil {
		return Planned{}, err
	}
	defer n.Close()

	n.Options.Explains = explains
	out := Planned{View: n.View(n.PlanUnless(ctx), "")}
	if origin.Code(out.Plan.Diagnostics) == fault.CredentialMissing && n.Site != nil {
		out.Plan.Diagnostics = append(findSensitive(n.Site), out.Plan.Diagnostics...)
	}
	if n.Site != nil {
		version := cmp.Or(w.KubeletVersion, out.Plan.Kubelet.KnownVersion())
		AddUnitFlags(out.Plan, w, n.Site, version)
		judgesDropIns := out.Plan.Node.FindPath("config-dir") != "" // else an unread file may have the flag
		if u, isHere := findUnit(out.Plan, w, n.Site, version); isHere && (w.Root != "" || !judgesDropIns) {
			addUnreported(out.Plan, u.CheckDropIns(func(string) bool { return false }))
		}
	}
	if n.Store != nil && out.Plan.Complete {
		out.Held = commit.WhyHeld(n.Store, out.Plan)
	}
	return out, nil
}

// AddUnitFlags adds the faults in the flags of a plan's machine, for a version of the kubelet, that the plan does not
// report itself. It adds nothing for a recorded machine, whose files are not here.
func AddUnitFlags(p *evaluate.Plan, w lab.Request, site *lang.Site, version string) {
	if u, isHere := findUnit(p, w, site, version); isHere {
		addUnreported(p, u.CheckFlags())
	}
}

// findUnit returns the kubelet's unit on a plan's machine.
func findUnit(p *evaluate.Plan, w lab.Request, site *lang.Site, version string) (u unitcheck.Unit, isHere bool) {
	if w.From != "" || w.Root == "" && w.Hardware != "" {
		return u, false
	}
	u.Root = nodefile.Root(w.Root)
	u.Name = hostfiles.KubeletUnit(site)
	u.Kubelet = version
	u.Planned = unitcheck.ListPlanned(u.Root, p.Node.Files)
	for _, c := range p.Changes {
		if c.Action == "delete" {
			u.Planned[c.File.Path] = nil
		}
	}

	return u, true
}

// addUnreported adds the findings that a plan does not have. An error replaces a warning of the plan about the same:
// the plan did not know whether the kubelet gets the flag.
func addUnreported(p *evaluate.Plan, found hcl.Diagnostics) {
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
	return slices.DeleteFunc(evaluate.Check(
		s,
		evaluate.SampleMachines(),
		evaluate.CheckOptions{},
	), func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) != fault.Sensitive
	})
}
