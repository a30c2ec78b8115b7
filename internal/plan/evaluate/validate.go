package evaluate

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/blame"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
	"github.com/prelet/prelet/internal/plan/removal"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// labelsByDetector has recommended labels by the name of the detector that recommends them.
type labelsByDetector = map[string]map[string]string

// CheckOptions are the input of a check in addition to the site.
type CheckOptions struct {
	// Kubelet is the kubelet's version ("1.33", "v1.33.4"), whose flags, fields, feature gates and labels are
	// checked; "" if it is unknown.
	Kubelet string
	// Locks answers the questions for detectors' locks; nil: there are none.
	Locks tape.Source
	// Objects answers the questions for ConfigMaps; nil: they are unknown.
	Objects tape.Source
	// Binary answers for the kubelet's binary, and Finished is as in RunInput; nil: the rules alone check. It is not
	// asked where the base is not known.
	Binary   tape.Source
	Finished func(judge.FinishedKubelet)
}

// Check checks a site with no machine and no network: first its references and types, then the steps up to the rules on
// each sample machine. Files, objects and the base are unknown there, and credentials exist. It returns one
// diagnostic for each place, with the machines that it came from. All machines share the time of one evaluation.
func Check(s *lang.Site, machines []SampleMachine, o CheckOptions) hcl.Diagnostics {
	diags, _ := CheckAndRender(s, machines, o)

	return diags
}

// CheckAndRender is Check, and returns the site's files on the first sample machine with facts, with the settings of
// the kubelet's drop-in that are known. There are none if the site has errors.
func CheckAndRender(s *lang.Site, machines []SampleMachine, o CheckOptions) (hcl.Diagnostics, []desired.File) {
	diags, files := checkWithin(s, machines, o, limit.Default().Shared())

	return blame.PlaceAtValues(s, nil, diags), files
}

func checkWithin(
	s *lang.Site,
	machines []SampleMachine,
	o CheckOptions,
	limits limit.Limits,
) (hcl.Diagnostics, []desired.File) {
	ctx := context.Background()
	p := startRun(ctx, s, RunInput{Locks: o.Locks}, limits)
	if p.runCheck(ctx); p.hasErrors() {
		return p.Diags, nil
	}
	p.Report(p.locks.CheckNames(s, o.Locks)...)

	found, valid, files := checkOnSamples(s, machines, o, limits)
	unknown := ""
	if len(machines) > 0 {
		unknown = machines[0].Name
	}
	withFacts := 0
	for _, m := range machines {
		if m.Facts != nil {
			withFacts++
		}
	}
	diags := append(p.Diags, found.List("On the sample machines", unknown, withFacts)...)
	for n, d := range diags { // the facts of the site's own machines may be such that the text is valid
		isText := slices.Contains([]fault.Code{fault.LabelInvalid, fault.NodeName}, origin.CodeOf(d))
		if isText && d.Subject != nil && valid[d.Subject.String()] {
			diags[n] = origin.MakeWarning(d)
		}
	}
	if diags.HasErrors() {
		return diags, nil
	}

	return slices.Concat(diags, removal.CheckHasWriter(s), removal.CheckNotified(s)), files
}

// checkOnSamples checks the site on each sample machine, and stops after one on which an evaluation reached a limit: it
// would reach it on the others too. valid has the places of labels and of a name that are valid on a sample machine,
// and files are those on the first machine with facts.
func checkOnSamples(
	s *lang.Site,
	machines []SampleMachine,
	o CheckOptions,
	limits limit.Limits,
) (found MachineFindings, valid map[string]bool, files []desired.File) {
	limits.GaveUp = new(atomic.Bool)
	valid = map[string]bool{}
	for _, m := range machines {
		p := runOnSample(s, m, o, limits)
		for _, d := range p.describeSample(m) {
			if !isAboutSample(m, d) {
				found.Add(m.Name, d)
			}
		}
		for _, place := range p.listValid() {
			valid[place.String()] = true
		}
		if files == nil && m.Facts != nil {
			files = listFiles(p.rendered.node)
		}

		if limits.GaveUp.Load() {
			break
		}
	}

	return found, valid, files
}

// MachineFindings are the diagnostics of a site over machines, one for each place, in the order in which the places
// came up.
type MachineFindings []machineFinding

// machineFinding is the first diagnostic of a place, or the first error among them.
type machineFinding struct {
	key        string
	diagnostic *hcl.Diagnostic
	machines   []string // names
}

// isAboutSample reports whether a diagnostic is a note about a sample machine only, such as that it lacks a label.
func isAboutSample(m SampleMachine, d *hcl.Diagnostic) bool {
	isOfMachine := m.Facts != nil
	if d.Summary == judge.UncheckedSummary { // true of each machine, except where the base cannot be read
		isOfMachine = m.Fails
	}

	return origin.IsNote(d) && (isOfMachine || origin.CodeOf(d) == fault.NullFact)
}

func (all *MachineFindings) Add(machine string, d *hcl.Diagnostic) {
	key := makeKey(d)
	i := slices.IndexFunc(*all, func(f machineFinding) bool {
		return f.key == key
	})
	if i < 0 {
		i = len(*all)
		*all = append(*all, machineFinding{key: key, diagnostic: d})
	}

	f := &(*all)[i]
	if d.Severity == hcl.DiagError && f.diagnostic.Severity != hcl.DiagError {
		f.diagnostic = d
	}
	if !slices.Contains(f.machines, machine) {
		f.machines = append(f.machines, machine)
	}
}

// List returns the diagnostics. Each names its machines, unless the first is the one of which nothing is known, so that
// its diagnostics are true of every machine. Those of all machines with facts are not named one by one.
func (all MachineFindings) List(on, unknown string, withFacts int) (out hcl.Diagnostics) {
	for _, f := range all {
		d := *f.diagnostic
		names := strings.Join(f.machines, ", ")
		if len(f.machines) == withFacts {
			names = "each that has facts"
		}
		if f.machines[0] != unknown {
			d.Detail += fmt.Sprintf(" (%s: %s.)", on, names)
		}
		out = append(out, &d)
	}

	return out
}

// makeKey returns a text that is the same for diagnostics that report one thing about one place.
func makeKey(d *hcl.Diagnostic) string {
	isOfSite := d.Subject == nil || strings.HasPrefix(d.Summary, judge.NewerSummary)
	if isOfSite {
		return d.Summary
	}

	key := d.Subject.String() + string(origin.CodeOf(d))
	if strings.HasPrefix(string(origin.CodeOf(d)), "kubelet-") { // one base may have several wrong fields
		key += d.Summary
	}

	return key
}

// describeSample returns the diagnostics of a sample machine. Errors that depend on the machine's facts become
// warnings, and a machine that the site refuses becomes a note, because the site may be meant for other machines.
func (p *progress) describeSample(m SampleMachine) hcl.Diagnostics {
	diags := append(slices.Clip(p.Diags), p.eval.Unsupported()...)

	for n, d := range diags {
		switch code := origin.CodeOf(d); {
		case d.Severity != hcl.DiagError:
		case p.mayRefuse(m, d):
			diags[n] = origin.Note(
				code, findPlace(d), d.Summary, "%s The site may not be meant for such a machine.", d.Detail,
			)
		case m.Facts != nil && (code == fault.NullFact || eval.FactCaused(d)):
			diags[n] = origin.MakeWarning(d)
		}
	}

	return diags
}

// listValid returns the places of the machine's labels and of its name.
func (p *progress) listValid() (valid []hcl.Range) {
	for _, l := range p.rendered.node.Labels {
		valid = append(valid, l.Origins[0].Range)
	}
	if identity := p.decided.basis.Node; identity.Name != nil {
		valid = append(valid, identity.NameRange)
	}

	return valid
}

// mayRefuse reports whether an error may concern this sample machine only: another one may have other facts or
// other values of variables.
func (p *progress) mayRefuse(m SampleMachine, d *hcl.Diagnostic) bool {
	switch origin.CodeOf(d) {
	case fault.ReserveRefused:
		return true
	case fault.MissingArgument:
		return p.usesVariable(findPlace(d))
	case fault.Precondition:
		return m.Facts != nil || m.Fails || p.usesVariable(findPlace(d))
	}

	return false
}

// usesVariable reports whether the argument of a stage at a place depends on a variable.
func (p *progress) usesVariable(at hcl.Range) bool {
	return slices.ContainsFunc(p.site.Stages, func(i *lang.Instance) bool {
		return slices.ContainsFunc(eval.BodyExpressions(i.Body), func(x hclsyntax.Expression) bool {
			return x.Range() == at && p.eval.Reach(x).Vars
		})
	})
}

// runOnSample runs the steps of a boot on one sample machine, up to the rules. An error ends only the preparation: the
// steps after it show what else is wrong.
func runOnSample(s *lang.Site, m SampleMachine, o CheckOptions, limits limit.Limits) *progress {
	ctx := context.Background()
	p := startRun(ctx, s, RunInput{Locks: o.Locks}, limits)
	p.runCheck(ctx)
	p.Diags = nil // Check has reported them
	if !p.runAll(ctx, p.runSettings, p.runPrepare) {
		return p
	}

	if o.Kubelet != "" {
		p.kubelet.Version = &o.Kubelet
	}
	if o.Binary != nil {
		p.judge.Binary = tape.NewTape(o.Binary)
		p.judge.IsAskedElsewhere = o.Objects != nil
		p.judge.Finished = o.Finished
	}
	if p.runGatherOnSample(ctx, m, o.Objects); p.gathered.eval == nil {
		return p // abandoned
	}
	if p.runDecide(ctx); p.decided.eval == nil {
		return p
	}
	if p.runRender(ctx); p.rendered.eval == nil {
		return p
	}
	p.runRules(ctx)

	return p
}

// listFiles returns the files of a node, and of the kubelet's drop-in the settings that are known.
func listFiles(n desired.Node) []desired.File {
	_, isRendered := n.FindFile(n.DropIn)
	if n.DropIn == "" || isRendered {
		return n.Files
	}

	return append(n.Files, desired.File{
		Path: n.DropIn,
		Kind: desired.Regular,
		Text: secret.PlainText(string(kubelet.ConfigOf(effective.OwnConfig(n)).Canonical())),
	})
}

func (p *progress) runGatherOnSample(ctx context.Context, m SampleMachine, objects tape.Source) {
	g := sampleGatherer{
		checked: p.checked,
		env:     p.prepared.env,
		machine: m,
		objects: objects,
	}
	e := p.eval.Fork()
	p.gathered = runLimited(ctx, p, func() (Gathered, Findings) {
		return g.gather(e)
	})
	p.setEval(p.gathered.eval)
}

// sampleGatherer gives gather stages the outputs that they have on a sample machine, and checks their
// configuration.
type sampleGatherer struct {
	checked Checked
	env     stages.Env
	machine SampleMachine
	objects tape.Source // nil: ConfigMaps are unknown
}

// gather is the step gather without a machine.
func (g sampleGatherer) gather(e *eval.Eval) (out Gathered, found Findings) {
	out.Facts = g.machine.Facts
	for _, i := range g.checked.order {
		if i.Spec.Phase != schema.Gather {
			continue
		}

		output, recommended, more := g.gatherStage(i, e)
		if recommended != nil {
			out.Recommended = recommended
		}
		found.add(more)
		e = withOutput(e, i, output)
	}
	out.eval = e

	return out, found
}

// gatherStage returns the output of one gather stage: unknown, or absent where every read fails. On a machine with
// facts, that of detect-hw is computed from them, and ConfigMaps are read from the objects.
func (g sampleGatherer) gatherStage(
	i *lang.Instance, e *eval.Eval,
) (cty.Value, labelsByDetector, Findings) {
	t := g.checked.types[i.Addr()]
	copies, diags := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	found := newFindings(diags...)
	outputs := map[string]cty.Value{}
	hasFailed := false
	readsObjects := g.objects != nil && !g.machine.Fails && i.Body.Attributes["config_map"] != nil
	isFetched := false

	for _, one := range copies.All {
		cfg, state, more := g.checkCopy(i, e, one)
		found.add(more)
		outputs[one.Key] = setState(value.UnknownOutput(t), stateOK)
		switch {
		case state != "":
			hasFailed = true
			outputs[one.Key] = setState(value.Absent(t), state)
		case readsObjects && cfg.Known() && !more.Diags.HasErrors():
			output, diags := g.fetch(i, cfg)
			found.Report(diags...)
			if output != cty.NilVal {
				isFetched = true
				outputs[one.Key] = output
			}
		}
	}
	_, more := decodeTimeout(i, e)
	found.add(more)

	switch {
	case (i.ForEach != nil || hasFailed || isFetched) && copies.Known:
		return combineOutputs(i, t, outputs), nil, found
	case g.machine.Facts != nil && i.Type == stages.DetectHW:
		if output, recommended, err := g.detect(i, e); err == nil {
			return output, recommended, found
		}
	}

	return makeUnknownOutput(i, t), nil, found
}

// fetch returns the output of a copy that reads a ConfigMap of the objects. If it cannot be read, the output stays
// unknown, with a warning.
func (g sampleGatherer) fetch(i *lang.Instance, cfg schema.Body) (cty.Value, hcl.Diagnostics) {
	out, diags := i.Stage.(stages.Gatherer).Gather(context.Background(), cfg, g.env, g.objects)
	if diags.HasErrors() {
		return cty.NilVal, makeWarnings(diags)
	}

	return setState(out.Value, stateOK), diags
}

// checkCopy checks the configuration of one copy, and returns it. state is that of the copy if it fails on the machine,
// "" if it does not.
func (g sampleGatherer) checkCopy(
	i *lang.Instance, e *eval.Eval, one eval.Copy,
) (cfg schema.Body, state string, found Findings) {
	cfg, diags := decodeStage(i, one.Scope)
	found.Report(diags...)
	if checker, ok := i.Stage.(stages.Checker); ok && !diags.HasErrors() {
		in := stages.Inputs{Readings: stages.Readings{Facts: g.machine.Facts}, Access: g.env.Access, Check: true}
		in = makeInputs(in, i, g.checked.site)
		found.Report(checker.Check(cfg, in)...)
	}

	switch {
	case !g.machine.Fails:
		return cfg, "", found
	case i.OnFailure == "continue":
		return cfg, stateFailed, found
	case cfg.True("optional"): // an object that does not exist is not a failure
		return cfg, stateOK, found
	}

	return cfg, "", found
}

// detect runs detect-hw over the machine's facts, without its detectors.
func (g sampleGatherer) detect(
	i *lang.Instance, e *eval.Eval,
) (cty.Value, labelsByDetector, error) {
	facts, err := json.Marshal(g.machine.Facts)
	if err != nil {
		return cty.NilVal, nil, err
	}
	src := tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindHardware {
			return tape.Answer{Value: facts}
		}

		return tape.Failure(fault.Absent, "", "")
	})

	env := g.env
	env.Detectors = slices.Clone(env.Detectors)
	for n := range env.Detectors {
		env.Detectors[n].Required = false
	}
	scope := e.Scope(i.Addr())
	cfg, _ := i.Spec.DecodeAt(nil, nil, scope, i.Range)
	stage := i.Stage.(stages.Gatherer)
	out, diags := stage.Gather(context.Background(), cfg, env, src)
	if diags.HasErrors() {
		return cty.NilVal, nil, diags
	}

	return setState(out.Value, stateOK), out.Recommended, nil
}

// SampleMachine is a machine that a site is checked on instead of a real one.
type SampleMachine struct {
	Name  string
	Facts *tape.Facts // nil: unknown
	Fails bool        // every stage that may fail does
}

//go:embed samples.yaml
var samplesText []byte

// SampleMachines returns the machines that validate checks a site on: one of which nothing is known, one on which
// every read fails, and five with facts that show the assumptions of a site.
func SampleMachines() []SampleMachine {
	var samples struct{ Machines []SampleMachine }
	if err := yaml.Unmarshal(samplesText, &samples); err != nil {
		panic(fmt.Sprintf("samples.yaml: %s", err))
	}

	return samples.Machines
}
