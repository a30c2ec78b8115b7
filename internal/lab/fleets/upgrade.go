package fleets

import (
	"cmp"
	"context"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// UpgradeOptions are the node or the recordings, and the version to which their kubelets are upgraded.
type UpgradeOptions struct {
	lab.Request
	To     string // 1.38
	Server string // the version of the API server; "": unknown
}

// Upgrade plans the site over the node of o or, where o.From is a folder, over each recording in it, with the kubelet
// in place and with each newer minor version up to o.To, and reports how the results differ.
func Upgrade(ctx context.Context, e *machine.Env, o UpgradeOptions) (*fleet.Upgrade, error) {
	if len(o.Binaries) > 0 {
		o.KubeletVersion = "" // each node has its own, and these are newer
	}
	for version := range o.Binaries {
		if minor := toMinor(version); minor > toMinor(o.To) {
			o.To = known.Version(minor)
		}
	}
	if err := known.CheckVersion(o.To); err != nil {
		return nil, fault.Usage.Errorf("--to %s: %s", o.To, err)
	}
	if to := toMinor(o.To); to > known.Newest() && findBinary(&o.Request, to) == "" {
		return nil, fault.Usage.Errorf("--to %s: this prelet knows the kubelets to %s; use a newer prelet",
			o.To, known.Describe(known.Newest()))
	}
	if err := known.CheckVersion(cmp.Or(o.Server, o.To)); err != nil {
		return nil, fault.Usage.Errorf("--server-version %s: %s", o.Server, err)
	}
	planner, err := newFleetPlanner(ctx, e, PlanOptions{Request: o.Request})
	if err != nil {
		return nil, err
	}
	planner.advises = true

	return planner.upgradeAll(ctx, o)
}

// toMinor returns the minor version of a text; 0 for an unknown one.
func toMinor(version string) int {
	minor, _ := known.Minor(version)

	return minor
}

// findBinary returns the version of the binary of a minor version; "" if there is none.
func findBinary(w *lab.Request, minor int) string {
	for version := range w.Binaries {
		if toMinor(version) == minor {
			return strings.TrimPrefix(version, "v")
		}
	}

	return ""
}

// upgradeAll reports the effects of newer kubelets on the recordings, or on the node.
func (p *fleetPlanner) upgradeAll(ctx context.Context, o UpgradeOptions) (*fleet.Upgrade, error) {
	sources, err := lab.ListMachines(o.Request)
	if err != nil {
		return nil, err
	}
	if sources == nil {
		sources = []string{o.From}
	}

	defer collectLessOften()()
	to, _ := known.Minor(o.To)
	report := fleet.NewUpgrade(p.env.Version, o.Server, to)
	err = lab.InOrder(
		ctx,
		p.env,
		sources,
		func(ctx context.Context, source string) fleet.UpgradedMachine { return p.upgrade(ctx, source, to) },
		func(m fleet.UpgradedMachine) error {
			report.Add(m)
			return nil
		},
	)
	report.Finish()

	return report, err
}

// upgrade plans one recording, or the node of the options where source is "", with its own kubelet and newer ones.
func (p *fleetPlanner) upgrade(ctx context.Context, source string, to int) fleet.UpgradedMachine {
	out := fleet.UpgradedMachine{Source: source}
	out.Err = p.withPlans(ctx, source, func(m machinePlans) {
		out.Planned, out.Recording = m.planned, m.recording
		from, isKnown := known.Minor(m.planned.Kubelet.KnownVersion())
		if !isKnown {
			return
		}
		var versions []string
		for minor := from + 1; minor <= to; minor++ {
			versions = append(versions, cmp.Or(findBinary(&p.planned.Request, minor), known.Release(minor)))
		}
		out.Newer = m.planned.WithKubelets(ctx, versions)
		w := p.planned.Request
		w.From = source
		site := m.planned.Site
		planning.AddUnitFlags(m.planned, w, site, m.planned.Kubelet.KnownVersion())
		for i, newer := range out.Newer {
			planning.AddUnitFlags(newer, w, site, versions[i])
		}
		if from == to {
			out.Newer = []*evaluate.Plan{m.planned}
		}
	})

	return out
}
