// Package sites has the commands for the files of a site: it makes, imports, formats, validates, tests, signs, pushes
// and pulls a site, lists its layers, and lists, locks and checks detectors. Only Detect, ListDetectors and, on demand,
// Init read a node. It writes only the files, folders and registries that a person names, and the locks of detectors.
package sites

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/rehearsal"
	"github.com/prelet/prelet/internal/lab/unitcheck"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// ValidateOptions are the site to check and how strictly.
type ValidateOptions struct {
	lab.Request
	Strict bool // warnings fail the check
}

// Validated is a site with everything that was found in it.
type Validated struct {
	Site        *lang.Site
	Diagnostics hcl.Diagnostics
	Machines    int   // sample machines that the site is evaluated on
	Planned     int   // machines that the site was planned on, without errors
	StrictErr   error // set where the site has warnings and ValidateOptions.Strict makes them errors
}

// IsValid reports whether the site passes the check.
func (v Validated) IsValid() bool {
	return !v.Diagnostics.HasErrors() && v.StrictErr == nil
}

// Validate loads a site and validates it. An error is about the options.
func Validate(e *machine.Env, o ValidateOptions) (Validated, error) {
	d, err := Read(e, o)
	if err != nil {
		return Validated{}, err
	}

	return d.Validate(e), nil
}

// Draft is a site that was read to be validated.
type Draft struct {
	ValidateOptions
	Given *lab.Given

	from    string
	planned []string // machines
}

// Read loads a site to be validated.
func Read(e *machine.Env, o ValidateOptions) (*Draft, error) {
	if o.Files == nil && len(o.Config) > 0 {
		o.Files = lang.OS() // a draft needs no signature
	}
	planned, err := o.listMachines()
	if err != nil {
		return nil, err
	}
	from := o.From
	o.From, o.Hardware = "", "" // the site is that of the other options
	g, err := lab.Read(e, o.Request)
	if err != nil {
		return nil, err
	}
	o.Request = g.Request
	o.Objects = cmp.Or(o.Objects, o.Repository.Objects)

	return &Draft{o, g, from, planned}, nil
}

// warnOfDetectors warns of detectors without a lock whose names resemble those that come with prelet: they are absent
// on every node.
func warnOfDetectors(s *lang.Site, host *detector.Host) (diags hcl.Diagnostics) {
	if s == nil {
		return nil
	}
	for _, name := range s.DetectorNames() {
		near := rehearsal.NearDetector(name)
		if near == "" {
			continue
		}
		if _, err := host.Lock(name); err != nil {
			diags = append(diags, origin.Warning(fault.DetectorDegraded, s.Detectors[name].Range,
				fmt.Sprintf("No detector %q is known", name),
				"Did you mean %q, which comes with prelet? If it is another program, lock it: prelet detectors lock "+
					"--site --config DIR PROGRAM", near))
		}
	}

	return diags
}

// Validate evaluates a site on the sample machines, and plans it on recorded ones. It needs no machine and no network.
func (o *Draft) Validate(e *machine.Env) Validated {
	g := o.Given
	g.Loaded.Diags = excuseDelivery(g.Loaded)
	s, diags := g.Loaded.Site, g.Loaded.Diags
	machines := evaluate.SampleMachines()
	if g.Loaded.LacksPulled() && len(s.Stages) == 0 { // all of them are in the pulled layer
		machines, o.planned = nil, nil
	}
	if o.Root != "" && o.KubeletVersion == "" {
		unit, _ := systemd.ReadUnitFile(nodefile.Root(o.Root), hostfiles.KubeletUnit(s))
		o.TakeKubelet(kubeletbin.Examine(context.Background(), o.Root, "", unit.Define(kubelet.Argv).Command))
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
	diags = append(diags, warnOfDetectors(s, host)...)
	var files []desired.File // on a sample machine
	diags = append(diags, machine.LearnSite(e.Redactor, g.Values, s)...)
	if !diags.HasErrors() && machines != nil {
		var found hcl.Diagnostics
		s = withValues(s, g.Values)
		found, files = o.checkOnSamples(e, s, host, machines)
		diags = append(diags, found...)
	}
	if o.Root != "" {
		diags = append(diags, o.checkImage(e, s, files, !diags.HasErrors())...)
	}

	if !diags.HasErrors() {
		if len(o.planned) == 0 { // else each machine gives them, or lacks them
			diags = append(diags, noteMissing(s)...)
		}
		g.From = o.from
		diags = addNew(diags, planMachines(e, g, o.planned), "")
	}

	v := Validated{
		Site:        s,
		Diagnostics: diags,
		Machines:    len(machines),
		Planned:     len(o.planned),
	}
	if o.Strict && hasWarnings(diags) {
		v.StrictErr = fault.Evaluation.Errorf("the site has warnings, and --strict makes them errors")
	}

	return v
}

// checkImage checks the kubelet's unit and the container runtime of an image, those of a valid site with its files.
func (o *Draft) checkImage(e *machine.Env, s *lang.Site, files []desired.File, isValid bool) (found hcl.Diagnostics) {
	u := unitcheck.Unit{Kubelet: o.KubeletVersion}
	u.Root = nodefile.Root(o.Root)
	u.Name = hostfiles.KubeletUnit(s)
	if isValid {
		u.Planned = unitcheck.ListPlanned(u.Root, files)
		found = askRuntime(e, u.Root, files)
	}
	isPlanned := func(path string) bool { return mayWrite(s, path) }

	return slices.Concat(found, u.CheckFlags(), u.CheckDropIns(isPlanned))
}

// mayWrite reports whether a site has a file block with this path that is written in each case, as far as that is known
// without a machine. Its content may not be known.
func mayWrite(site *lang.Site, file string) bool {
	for _, i := range site.Stages {
		for _, b := range i.Body.Blocks {
			attributes := b.Body.Attributes
			path := attributes["path"]
			if path == nil || attributes["when"] != nil || attributes["create_only"] != nil {
				continue
			}
			if text, isLiteral := value.LiteralText(path.Expr); isLiteral && text == file {
				return true
			}
		}
	}

	return false
}

// excuseDelivery returns the findings of loading a site, with a note in place of the error that its pulled layer is not
// here: an image never has it.
func excuseDelivery(l *machine.LoadedSite) hcl.Diagnostics {
	if !l.LacksPulled() {
		return l.Diags
	}
	others := slices.DeleteFunc(slices.Clone(l.Diags), func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) == fault.SiteDelivery
	})

	return append(others, origin.Note(
		fault.SiteDelivery, hcl.Range{}, "The pulled layer is not here",
		"Nodes pull it, so the other layers are checked alone. Check it with them: prelet validate DIR REFERENCE.",
	))
}

// askRuntime asks the container runtime of an image about its configuration with the site's files.
func askRuntime(e *machine.Env, root nodefile.Root, files []desired.File) hcl.Diagnostics {
	if !kubeletbin.MayStart(string(root)) {
		return nil
	}
	a := &dryrun.RuntimeAsker{Root: root, Redactor: e.Redactor}
	r := judge.FinishedRuntime{Files: files}

	return r.AskRuntime(context.Background(), a.Over(nil), a.Finish).Diags
}

// checkOnSamples checks a site on the sample machines, for each kubelet, and returns the site's files on one of them.
func (o ValidateOptions) checkOnSamples(
	e *machine.Env,
	s *lang.Site,
	host *detector.Host,
	machines []evaluate.SampleMachine,
) (hcl.Diagnostics, []desired.File) {
	check := evaluate.CheckOptions{Kubelet: o.KubeletVersion, Locks: host}
	kubelets := o.Repository.Kubelets
	if check.Kubelet == "" && len(kubelets) > 0 {
		check.Kubelet, kubelets = kubelets[0], kubelets[1:]
	}
	if o.Objects != "" {
		check.Objects = probe.Objects(o.Objects)
	}
	asked := dryrun.AskBinaries(o.Binaries, e.Redactor.String)
	asker := asked["v"+o.KubeletVersion]
	if asker != nil {
		check.Binary = asker
		check.Finished = asker.Finish
	}
	diags, files := evaluate.CheckAndRender(s, machines, check)
	for _, version := range kubelets {
		if check.Kubelet = version; o.KubeletVersion == "" {
			found, _ := evaluate.CheckAndRender(s, machines, check)
			diags = addNew(diags, found, " (With kubelet "+version+".)")
		}
	}
	if len(o.Kubelets) > 0 && (asker == nil || !asker.WasAsked()) && !diags.HasErrors() {
		diags = append(diags, origin.Warning(
			fault.Usage, hcl.Range{}, "The kubelet's binary was not asked",
			"The configuration of the kubelet is not known without that of the cluster. Give its ConfigMaps with "+
				"--objects DIR.",
		))
	}

	return diags, files
}

// listMachines returns the recordings and the recorded hardware to plan the site on.
func (o ValidateOptions) listMachines() ([]string, error) {
	if o.Root != "" && o.Hardware != "" {
		return nil, fault.Usage.Errorf("--root excludes --hardware: prelet plan takes both")
	}
	out, err := lab.ListRecordings(o.From)
	if err != nil || out != nil {
		return out, err
	}

	out, err = o.Machines()

	return append(out, slices.DeleteFunc([]string{o.From, o.Hardware}, isEmpty)...), err
}

func isEmpty(text string) bool { return text == "" }

// withValues returns a site with the values of the command line, which win over its own, except for those of sensitive
// variables, which are not evaluated.
func withValues(s *lang.Site, given map[string]probe.Given) *lang.Site {
	out := *s
	out.Values = maps.Clone(s.Values)
	for name, v := range given {
		declared := s.Variables[name]
		if declared == nil || declared.Sensitive {
			continue
		}
		at := hcl.Range{Filename: v.Source, Start: hcl.InitialPos, End: hcl.InitialPos}
		out.Values[name] = &hclsyntax.LiteralValueExpr{Val: cty.StringVal(v.Text), SrcRange: at}
		if x, err := lang.ParseValue(v.Source, []byte(v.Text)); err == nil && !declared.Type.IsPrimitiveType() {
			out.Values[name] = x
		}
	}

	return &out
}

// noteMissing returns a note for each variable that has no value in the site.
func noteMissing(s *lang.Site) (out hcl.Diagnostics) {
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		v := s.Variables[name]
		if v.Default != nil || s.Values[name] != nil || v.Sensitive {
			continue
		}
		out = append(out, origin.Note(
			fault.VariableMissing, v.Range, fmt.Sprintf("var.%s has no value in the site", name),
			"Each machine must give it, by credential prelet.var.%[1]s or on the kernel command line. "+
				"--var %[1]s=… checks the site with a value.", name,
		))
	}

	return out
}

// planMachines plans the site on recorded machines, in memory, and returns the findings. An answer that is missing
// here, and that a run would have, is a warning.
func planMachines(e *machine.Env, g *lab.Given, machines []string) hcl.Diagnostics {
	var all evaluate.MachineFindings
	plan := func(ctx context.Context, machine string) (out hcl.Diagnostics) {
		n, err := lab.OpenMachine(e.WithOwnRedactor(), g, machine, nil)
		if err != nil {
			d := origin.Error(fault.CodeOf(err), hcl.Range{}, "The recording cannot be used", "%s.", err)
			return hcl.Diagnostics{d}
		}
		defer n.Close()

		for _, d := range n.Plan(ctx, nil).Diagnostics {
			if !origin.IsNote(d) {
				out = append(out, excuse(d, n.Recorded == nil && n.Objects == ""))
			}
		}

		return out
	}
	_ = lab.InOrder(context.Background(), e, machines, plan, func(found hcl.Diagnostics) error { // no signal ends it
		machine := machines[0]
		machines = machines[1:]
		for _, d := range found {
			all.Add(machine, d)
		}
		return nil
	})

	return all.List("On", "", 0)
}

// excuse turns an error about an answer that only a run has into a warning, and one about an older recording into a
// note.
func excuse(d *hcl.Diagnostic, lacksObjects bool) *hcl.Diagnostic {
	code := origin.CodeOf(d)
	at := *cmp.Or(d.Subject, &hcl.Range{})
	detail := d.Detail + " So this machine was not planned to the end."
	switch isLacking := code == fault.ClusterUnusable && lacksObjects; {
	case d.Severity != hcl.DiagError:
	case code == fault.Unread:
		return origin.Note(code, at, d.Summary, "%s", detail)
	case isLacking, code == fault.VariableMissing, code == fault.DetectorFailed:
		return origin.Warning(code, at, d.Summary, "%s", detail)
	}

	return d
}

// addNew adds findings that are not known yet, with a text that says where they are from. An error is new where a
// warning is known.
func addNew(known, found hcl.Diagnostics, from string) hcl.Diagnostics {
	isSame := func(d, o *hcl.Diagnostic) bool {
		isPlace := d.Subject == o.Subject || d.Subject != nil && o.Subject != nil && *d.Subject == *o.Subject
		return isPlace && d.Summary == o.Summary && d.Severity >= o.Severity
	}
	for _, d := range found {
		if slices.ContainsFunc(known, func(o *hcl.Diagnostic) bool { return isSame(d, o) }) {
			continue
		}
		added := *d
		added.Detail += from
		known = append(known, &added)
	}

	return known
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
