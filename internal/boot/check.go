package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Witness is a sample machine that a site is checked on when there is no machine.
type Witness struct {
	Name  string
	Facts *world.Facts // nil: unknown
	Fails bool         // every stage that may fail does
}

// Check checks a site with no machine and no network: references along types, then the steps up to judge on each
// witness. Files, objects and the base are unknown there, and credentials exist. It returns one diagnostic for a
// place, with the witnesses that it came from.
func Check(s *site.Site, witnesses []Witness) hcl.Diagnostics { return CheckFor(s, witnesses, "") }

// CheckFor is Check for a kubelet of a version ("1.33", "v1.33.4"), which rejects flags, fields, feature gates and
// labels as that version does. "" is an unknown one.
func CheckFor(s *site.Site, witnesses []Witness, kubelet string) hcl.Diagnostics {
	return CheckWith(s, witnesses, kubelet, nil)
}

// CheckWith is CheckFor where something is known of detectors: locks answers the questions for their locks.
func CheckWith(s *site.Site, witnesses []Witness, kubelet string, locks world.Source) hcl.Diagnostics {
	o := Options{Locks: locks}
	p, known := startRun(context.Background(), s, o)
	if p.runCheck(known, newRuntimeEnv(o, defaultLimits())); p.hasErrors() {
		return p.Diags
	}

	p.report(unknownDetectors(s, known, locks)...)

	var found witnessFindings
	for _, w := range witnesses {
		for _, d := range checkOn(s, w, kubelet, o) {
			if !isWitnessNote(w, d) {
				found.add(w, d)
			}
		}
	}

	diags := append(p.Diags, found.list(witnesses)...)
	if !diags.HasErrors() {
		diags = append(diags, checkNowhere(s)...)
	}

	return diags
}

// isWitnessNote reports whether a diagnostic is a note that concerns only the witness, for example that it lacks a
// label.
func isWitnessNote(w Witness, d *hcl.Diagnostic) bool {
	return origin.IsNote(d) && (w.Facts != nil || origin.CodeOf(d) == fault.NullFact)
}

// witnessFindings are diagnostics, one for a place, in the order in which they came.
type witnessFindings struct {
	all     []*witnessFinding
	byPlace map[string]*witnessFinding
}

// witnessFinding is the first of the diagnostics of a place, or the first error among them.
type witnessFinding struct {
	diagnostic *hcl.Diagnostic
	witnesses  []string // names
}

func (found *witnessFindings) add(w Witness, d *hcl.Diagnostic) {
	key := makeKey(d)
	f := found.byPlace[key]
	if f == nil {
		f = &witnessFinding{diagnostic: d}
		if found.byPlace == nil {
			found.byPlace = map[string]*witnessFinding{}
		}
		found.byPlace[key] = f
		found.all = append(found.all, f)
	}

	if d.Severity == hcl.DiagError && f.diagnostic.Severity != hcl.DiagError {
		f.diagnostic = d
	}
	if !slices.Contains(f.witnesses, w.Name) {
		f.witnesses = append(f.witnesses, w.Name)
	}
}

// list returns the diagnostics. Each names its witnesses, unless it came from the first: on that one nothing is
// known, and what is wrong there is wrong everywhere.
func (found *witnessFindings) list(witnesses []Witness) (out hcl.Diagnostics) {
	for _, f := range found.all {
		d := *f.diagnostic
		if f.witnesses[0] != witnesses[0].Name {
			d.Detail += fmt.Sprintf(" (On the witness machines: %s.)", strings.Join(f.witnesses, ", "))
		}
		out = append(out, &d)
	}

	return out
}

// makeKey returns a text that is the same for diagnostics that report one thing about one place.
func makeKey(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return d.Summary
	}
	code := string(origin.CodeOf(d))
	if strings.HasPrefix(code, "kubelet-") { // a base is one place, and may have several wrong fields
		return d.Subject.String() + code + d.Summary
	}

	return d.Subject.String() + code
}

// checkOn checks the site on one witness. What depends on the facts of a witness is a warning, and a refusal of that
// witness a note: the site may be meant for other machines.
func checkOn(s *site.Site, w Witness, kubelet string, o Options) hcl.Diagnostics {
	p := runOnWitness(s, w, kubelet, o)
	diags := append(slices.Clip(p.Diags), p.eval.Unsupported()...)
	for n, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}

		mayDiffer := usesVariable(s, p.eval, readRange(d)) // a machine may give the variable another value
		switch code := origin.CodeOf(d); {
		case code == fault.ReserveRefused, code == fault.MissingArgument && mayDiffer,
			code == fault.Precondition && (mayDiffer || w.Facts != nil || w.Fails):
			diags[n] = origin.Note(code, readRange(d), d.Summary,
				"%s The site may not be meant for such a machine.", d.Detail)
		case w.Facts != nil && (code == fault.NullFact || eval.FactCaused(d)):
			warning := *d
			warning.Severity = hcl.DiagWarning
			diags[n] = &warning
		}
	}

	return diags
}

// usesVariable reports whether the argument of a stage at a place depends on a variable.
func usesVariable(s *site.Site, e *eval.Eval, at hcl.Range) bool {
	return slices.ContainsFunc(s.Stages, func(i *site.Instance) bool {
		return slices.ContainsFunc(eval.BodyExpressions(i.Body), func(x hclsyntax.Expression) bool {
			return x.Range() == at && e.Reach(x).Vars
		})
	})
}

// runOnWitness runs the steps of a boot on one witness, up to judge.
func runOnWitness(s *site.Site, w Witness, kubelet string, o Options) *progress {
	p, locks := startRun(context.Background(), s, o)
	env := newRuntimeEnv(o, defaultLimits())
	p.runCheck(locks, env)
	p.Diags = nil // CheckWith has reported them
	if p.runSettings(env); !p.hasErrors() {
		p.runPrepare(locks, env)
	}
	if p.hasErrors() {
		return p
	}

	if kubelet != "" {
		p.kubelet.Version = &kubelet
	}
	if p.runGatherOnWitness(w, env); p.gathered.eval == nil {
		return p // given up
	}
	if p.runDecide(env); p.decided.eval == nil {
		return p
	}
	if p.runRender(env); p.rendered.eval == nil {
		return p
	}
	p.runJudge(context.Background())

	return p
}

func (p *progress) runGatherOnWitness(w Witness, env runtimeEnv) {
	c, prepared, e := p.checked, p.prepared, p.eval.Fork()
	gathered, found := runStep(env.limits, func() (Gathered, Findings) { return gatherOnWitness(c, prepared, e, w) })
	p.gathered = gathered
	p.setEval(gathered.eval)
	p.addFindings(found)
}

func readRange(d *hcl.Diagnostic) hcl.Range {
	if d.Subject != nil {
		return *d.Subject
	}

	return hcl.Range{}
}

// gatherOnWitness is gather without a machine: it gives gather stages the outputs that a witness has, and checks their
// configuration.
func gatherOnWitness(c Checked, p Prepared, e *eval.Eval, w Witness) (Gathered, Findings) {
	out := Gathered{outputs: map[string]cty.Value{}, facts: w.Facts}
	var found Findings
	for _, i := range c.order {
		if i.Spec.Phase != schema.Gather {
			continue
		}
		output, recommended, more := gatherStageOnWitness(i, c, p.env, e, w)
		if recommended != nil {
			out.recommended = recommended
		}
		found = found.join(more)
		out.outputs[i.Addr()] = output
		e = e.With(map[string]cty.Value{i.Addr(): output})
	}
	out.eval = e

	return out, found
}

// gatherStageOnWitness returns the output of one gather stage on a witness. With facts, detect-hw has what the stage
// makes of them; without, and for all other stages, it is unknown, and absent where everything fails.
func gatherStageOnWitness(i *site.Instance, c Checked, env stages.Env, e *eval.Eval, w Witness) (
	cty.Value, labelsByDetector, Findings,
) {
	t := c.types[i.Addr()]
	copies, diags := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	found := Findings{Diags: diags}
	outputs := map[string]cty.Value{}
	hasFailed := false
	for _, one := range copies.All {
		state, more := checkCopyOnWitness(i, c, env, e, w, one)
		found = found.join(more)
		outputs[one.Key] = setState(value.UnknownOutput(t), stateOK)
		if state != "" {
			hasFailed = true
			outputs[one.Key] = setState(value.Absent(t), state)
		}
	}
	_, more := decodeTimeout(i, e)
	found = found.join(more)

	switch {
	case i.ForEach != nil && copies.Known:
		return makeObject(outputs), nil, found
	case hasFailed && copies.Known:
		return outputs[""], nil, found
	case w.Facts != nil && i.Type == "detect-hw":
		if v, recommended, err := detectOnWitness(i, e, env, w.Facts); err == nil {
			return v, recommended, found
		}
	}
	found.Unknown = found.Unknown.join(newUnknowns(nil, partStages))

	return makeUnknownOutput(i, t), nil, found
}

// checkCopyOnWitness checks the configuration of one copy. It returns the state of the copy if it fails on the witness;
// "": it does not.
func checkCopyOnWitness(i *site.Instance, c Checked, env stages.Env, e *eval.Eval, w Witness, one eval.Copy) (
	state string, found Findings,
) {
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, one.Scope, i.Range)
	found.report(diags...)
	if checker, ok := i.Stage.(stages.Checker); ok && !diags.HasErrors() {
		in := basis{access: env.Access, facts: w.Facts}.stageInputs(i, c.site, e)
		found.report(checker.Check(cfg, in)...)
	}
	if failed, ok := failureState(i, cfg); ok && w.Fails {
		return failed, found
	}

	return "", found
}

// failureState reports whether the site goes on without what a stage reads, and the stage's state then: an optional
// object that does not exist is not a failure.
func failureState(i *site.Instance, cfg schema.Body) (state string, mayFail bool) {
	if i.OnFailure == "continue" {
		return stateFailed, true
	}

	return stateOK, cfg.True("optional")
}

// detectOnWitness runs detect-hw over a tape that has the witness's facts only, so that its output is that of a
// machine.
func detectOnWitness(i *site.Instance, e *eval.Eval, env stages.Env, f *world.Facts) (
	cty.Value, labelsByDetector, error,
) {
	src := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
		if q.Kind == world.KindFacts {
			b, err := json.Marshal(f)
			if err != nil {
				return world.Failure(fault.FileUnusable, err.Error(), "")
			}

			return world.Answer{Value: b}
		}

		return world.Failure(fault.Absent, "", "")
	})

	env.Detectors = slices.Clone(env.Detectors)
	for n := range env.Detectors {
		env.Detectors[n].Required = false
	}
	cfg, _ := i.Spec.DecodeAt(nil, nil, e.Scope(i.Addr()), i.Range)
	out, d := i.Stage.(stages.Gatherer).Gather(context.Background(), cfg, env, src)
	if d.HasErrors() {
		return cty.NilVal, nil, d
	}

	return setState(out.Value, stateOK), out.Recommended, nil
}
