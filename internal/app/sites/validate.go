// Package sites makes, formats, checks and tests a site, and locks its detectors. It needs no node.
package sites

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/dryrun"
	"github.com/prelet/prelet/internal/app/unitflags"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
)

// ValidateOptions are the site to check and how strictly.
type ValidateOptions struct {
	app.Where
	Strict bool // warnings fail the check
}

// Validated is a site with everything that was found in it.
type Validated struct {
	Site        *lang.Site
	Diagnostics hcl.Diagnostics
	Machines    int   // sample machines that the site is evaluated on
	StrictErr   error // set where the site has warnings and ValidateOptions.Strict makes them errors
}

// IsValid reports whether the site passes the check.
func (v Validated) IsValid() bool {
	return !v.Diagnostics.HasErrors() && v.StrictErr == nil
}

// Validate loads a site and evaluates it on the sample machines. It needs no machine and no network. Findings about
// the site are in the result; an error is about the options.
func Validate(e *app.Env, o ValidateOptions) (Validated, error) {
	if o.Files == nil && len(o.Config) > 0 {
		o.Files = lang.OS() // a draft needs no signature
	}
	g, err := e.Read(o.Where)
	if err != nil {
		return Validated{}, err
	}

	o.Where = g.Where
	machines := boot.SampleMachines()
	s, diags := g.Loaded.Site, g.Loaded.Diags
	if o.Root != "" && o.KubeletVersion == "" {
		unit, _ := systemd.ReadUnitFile(nodefile.Root(o.Root), boot.KubeletUnit(s))
		o.TakeKubelet(kubeletbin.Examine(context.Background(), o.Root, "", unit.Unit(kubelet.Argv).Command))
	}
	host := e.DetectorHost(o.Where)
	for _, refused := range host.CheckSiteLocks() {
		diags = append(diags, origin.Error(
			fault.DetectorFailed,
			hcl.Range{},
			"A detector's lock is for no node",
			"%s. Lock it again: prelet detectors lock --site --config DIR PROGRAM, with --path where it is elsewhere "+
				"on nodes.",
			refused,
		))
	}
	var planned []node.File // on a sample machine
	if !diags.HasErrors() {
		check := boot.CheckOptions{Kubelet: o.KubeletVersion, Locks: host}
		if o.Objects != "" {
			check.Objects = probe.Objects(o.Objects)
		}
		asked := dryrun.AskBinaries(o.Binaries, e.Redactor.String)
		asker := asked["v"+o.KubeletVersion]
		if asker != nil {
			check.Binary = asker
			check.Finished = asker.Finish
		}
		found, files := boot.CheckAndRender(s, machines, check)
		diags = append(diags, found...)
		planned = files
		if len(o.Kubelets) > 0 && (asker == nil || !asker.WasAsked()) && !diags.HasErrors() {
			diags = append(diags, origin.Warning(
				fault.Usage, hcl.Range{}, "The kubelet's binary was not asked",
				"The configuration of the kubelet is not known without that of the cluster. Give its ConfigMaps with "+
					"--objects DIR.",
			))
		}
	}
	if o.Root != "" {
		u := unitflags.Unit{
			Root:    nodefile.Root(o.Root),
			Name:    boot.KubeletUnit(s),
			Kubelet: o.KubeletVersion,
		}
		if !diags.HasErrors() {
			u.Planned = unitflags.ListPlanned(u.Root, planned)
		}
		mayWrite := func(path string) bool { return boot.MayWrite(s, path) }
		diags = append(diags, u.CheckFlags()...)
		diags = append(diags, u.CheckDropIns(mayWrite)...)
	}

	v := Validated{
		Site:        s,
		Diagnostics: diags,
		Machines:    len(machines),
	}
	if o.Strict && hasWarnings(diags) {
		v.StrictErr = fault.Evaluation.Errorf("the site has warnings, and --strict makes them errors")
	}
	return v, nil
}

// hasWarnings reports whether there is a warning among diags. A note is not a warning.
func hasWarnings(diags hcl.Diagnostics) bool {
	for _, d := range diags {
		if d.Severity == hcl.DiagWarning && !origin.IsNote(d) {
			return true
		}
	}
	return false
}
