package app

import (
	"context"
	"maps"
	"slices"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/world"
)

// UpgradeOptions are the node or the recordings, and the version to which their kubelets are upgraded.
type UpgradeOptions struct {
	Where
	To     string // 1.38
	Server string // the version of the API server; "": unknown
	Fix    bool   // rewrite the site as far as that is safe
	Write  bool   // with Fix: its files too
}

// Upgraded is what newer kubelets do differently, and with UpgradeOptions.Fix the files of the site that can be
// rewritten, with what newer kubelets do differently then.
type Upgraded struct {
	Report *fleet.Upgrade
	Files  []FormattedFile
	Left   *fleet.Upgrade // nil without Fix
}

// upgraded is a machine with its plans.
type upgraded struct {
	source    string
	planned   *boot.Plan
	newer     []*boot.Plan // one for each newer version; the plan itself if it has the last one
	altered   []string     // see fleet.Altered
	recording *world.Recording
	err       error
}

// Upgrade plans the site over the node of o or, where o.From is a folder, over each recording in it, with the kubelet
// in place and with each newer minor version up to o.To, and reports what the newer ones do differently.
func (e *Env) Upgrade(ctx context.Context, o UpgradeOptions) (out Upgraded, err error) {
	if err := o.check(); err != nil {
		return out, err
	}
	to, err := checkUpgrade(o.To)
	if err != nil {
		return out, err
	}
	server := ""
	if minor, isVersion := known.Minor(o.Server); isVersion {
		server = known.Version(minor)
	} else if o.Server != "" {
		return out, failure(fault.Usage, "--server-version %s: write a version of Kubernetes, such as 1.36", o.Server)
	}
	planner, err := e.newFleetPlanner(ctx, PlanOptions{Where: o.Where})
	if err != nil {
		return out, err
	}
	planner.advises = true
	site := planner.planned.fixed
	if o.Fix && site == nil {
		return out, failure(fault.Usage, "--fix: the site is inside of the recordings; name its files with --config")
	}

	out.Report, _, err = planner.upgradeAll(ctx, to, server)
	if err != nil || !o.Fix || site.diags.HasErrors() {
		return out, err
	}

	planner.against = &siteLoader{fixed: site}
	keep := map[string]bool{}
	for { // without what would change kubelets in place
		fixed, loose := fixSite(site.site, out.Report, e.Version, keep)
		out.Files = compareSites(site.site, fixed)
		planner.planned.fixed = &loadedSite{site: fixed, diags: site.diags}
		var altered map[string]bool
		out.Left, altered, err = planner.upgradeAll(ctx, to, server)
		kept := len(keep)
		maps.Copy(keep, altered)
		switch {
		case err != nil:
			return out, err
		case len(keep) > kept:
			continue
		case len(altered) > 0 || out.Left.Worse(out.Report):
			return out, failure(fault.Internal,
				"a bug in prelet: kubelets in place would change with the rewritten site; no file is written")
		case o.Write && len(out.Report.Failed) > 0:
			return out, failure(fault.FileRefused, "%d of %d machines have no plan, and may need the site as it is: "+
				"no file is written", len(out.Report.Failed), out.Report.Machines)
		case o.Write:
			err = e.writeFixed(out.Files)
		}
		for _, file := range slices.Sorted(maps.Keys(loose)) {
			e.Say(file + " is not rewritten: run prelet fmt first; its lines must end as on Linux")
		}

		return out, err
	}
}

// upgradeAll reports what kubelets up to a minor version do differently on the recordings, or on the node. altered are
// the fields and feature gates that kubelets in place have otherwise with the site of p.against.
func (p *fleetPlanner) upgradeAll(ctx context.Context, to int, server string) (
	report *fleet.Upgrade, altered map[string]bool, err error,
) {
	sources, err := listRecordings(p.options.From)
	if err != nil {
		return nil, nil, err
	}
	if sources == nil {
		sources = []string{p.options.From}
	}

	defer collectLessOften()()
	oldest, _ := known.Range()
	altered = map[string]bool{}
	report = fleet.NewUpgrade(p.env.Version, server, oldest, to)
	err = inOrder(
		ctx,
		sources,
		func(ctx context.Context, source string) upgraded { return p.upgrade(ctx, source, to) },
		func(m upgraded) error {
			if m.err != nil {
				report.AddFailed(m.source, m.err)
				return nil
			}
			report.Add(m.source, m.planned, m.newer, m.recording)
			for _, name := range m.altered {
				altered[name] = true
			}
			return nil
		},
	)
	report.Finish()

	return report, altered, err
}

// checkUpgrade returns the minor version of --to.
func checkUpgrade(version string) (int, error) {
	if err := known.CheckVersion(version); err != nil {
		return 0, failure(fault.Usage, "--to %s: %s", version, err)
	}
	to, _ := known.Minor(version)
	if to > known.Newest() {
		return 0, failure(fault.Usage, "--to %s: this prelet knows the kubelets to %s; use a newer prelet",
			version, known.Describe(known.Newest()))
	}

	return to, nil
}

// upgrade plans one recording, or the node of the options where source is "", with its own kubelet and newer ones.
func (p *fleetPlanner) upgrade(ctx context.Context, source string, to int) (out upgraded) {
	out.source = source
	out.err = p.withPlans(ctx, source, func(m machinePlans) {
		out.planned, out.recording = m.planned, m.recording
		if m.old != nil {
			out.altered = fleet.Altered(m.old, m.planned)
		}
		if from, isKnown := known.Minor(m.planned.Kubelet.KnownVersion()); isKnown {
			var versions []string
			for minor := from + 1; minor <= to; minor++ {
				versions = append(versions, known.Version(minor))
			}
			out.newer = m.planned.WithKubelets(ctx, versions)
			if from == to {
				out.newer = []*boot.Plan{m.planned}
			}
		}
	})

	return out
}
