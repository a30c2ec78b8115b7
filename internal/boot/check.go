package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Witness is a machine that a site is tried on when none is at hand.
type Witness struct {
	Name  string
	Facts *world.Facts // nil: unknown
	Fails bool         // every stage that may fail does
}

// Check looks at a site with no machine and no network: references along types, then the whole function over each
// witness. Files, objects and the base are unknown there, credentials present. One message for a place, with the
// witnesses that it came from.
func Check(s *site.Site, witnesses []Witness) hcl.Diagnostics { return CheckFor(s, witnesses, "") }

// CheckFor is Check for a kubelet of a version ("1.33", "v1.33.4"), which minds flags, fields, feature gates and labels
// as that version does. "" is an unknown one.
func CheckFor(s *site.Site, witnesses []Witness, kubelet string) hcl.Diagnostics {
	return CheckWith(s, witnesses, kubelet, nil)
}

// CheckWith is CheckFor where something is known of detectors: locks answers that question.
func CheckWith(s *site.Site, witnesses []Witness, kubelet string, locks world.Source) hcl.Diagnostics {
	o := Options{Locks: locks}
	m, known := startRun(context.Background(), s, o)
	if m.runCheck(known, newRuntimeEnv(o, defaultLimits())); m.hasErrors() {
		return m.Diags
	}
	var found []*witnessFinding
	byPlace := map[string]*witnessFinding{}
	for _, w := range witnesses {
		for _, d := range checkOn(s, w, kubelet, o) {
			if origin.IsNote(d) && (w.Facts != nil || origin.CodeOf(d) == fault.NullFact) {
				continue // "no label on this machine" is no news of a witness
			}
			key := makeKey(d)
			f := byPlace[key]
			if f == nil {
				f = &witnessFinding{diagnostic: d}
				byPlace[key] = f
				found = append(found, f)
			}
			if d.Severity == hcl.DiagError && f.diagnostic.Severity != hcl.DiagError {
				f.diagnostic = d
			}
			if !slices.Contains(f.witnesses, w.Name) {
				f.witnesses = append(f.witnesses, w.Name)
			}
		}
	}
	out := m.Diags
	for _, f := range found {
		d := *f.diagnostic
		if f.witnesses[0] != witnesses[0].Name { // on the first nothing is known: what is wrong there is wrong everywhere
			d.Detail += fmt.Sprintf(" (On the witness machines: %s.)", strings.Join(f.witnesses, ", "))
		}
		out = append(out, &d)
	}
	return out
}

// keyOf is the same for messages that say one thing of one place.
func makeKey(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return d.Summary
	}
	code := string(origin.CodeOf(d))
	if strings.HasPrefix(code, "kubelet-") { // a base is one place, and may have several fields wrong
		return d.Subject.String() + code + d.Summary
	}

	return d.Subject.String() + code
}

type witnessFinding struct {
	diagnostic *hcl.Diagnostic
	witnesses  []string
}

// checkOn looks at the site on one witness.
func checkOn(s *site.Site, w Witness, kubelet string, o Options) hcl.Diagnostics {
	m := runOnWitness(s, w, kubelet, o)
	diags := append(slices.Clip(m.Diags), m.eval.Unsupported()...)
	for n, d := range diags {
		code := origin.CodeOf(d)
		if w.Facts != nil && d.Severity == hcl.DiagError && (code == fault.NullFact || eval.FactCaused(d)) {
			c := *d
			c.Severity = hcl.DiagWarning
			diags[n] = &c
		}
		if (code == fault.ReserveRefused || code == fault.Precondition) && d.Severity == hcl.DiagError {
			diags[n] = origin.Note(code, readRange(d), d.Summary, "%s The site may not be meant for such a machine.", d.Detail)
		}
	}

	return diags
}

// tryOn does over one witness what a boot does over a machine, up to the judgement of the node.
func runOnWitness(s *site.Site, w Witness, kubelet string, o Options) *progress {
	m, locks := startRun(context.Background(), s, o)
	t := newRuntimeEnv(o, defaultLimits())
	m.runCheck(locks, t)
	m.Diags = nil // CheckWith has said them
	if m.runSettings(t); !m.hasErrors() {
		m.runPrepare(locks, t)
	}
	if m.hasErrors() {
		return m
	}

	if kubelet != "" {
		m.kubelet.Version = &kubelet
	}
	c, p, e := m.checked, m.prepared, m.eval.Fork()
	gathered, found := runStep(t.limits, func() (Gathered, Findings) { return gatherOnWitness(c, p, e, w) })
	if m.addFindings(found); gathered.eval == nil {
		return m // given up
	}
	m.gathered, m.eval = gathered, gathered.eval
	if m.runDecide(t); m.decided.eval == nil {
		return m
	}
	if m.runRender(t); m.rendered.eval != nil {
		m.runJudge(context.Background())
	}

	return m
}

func readRange(d *hcl.Diagnostic) hcl.Range {
	if d.Subject != nil {
		return *d.Subject
	}
	return hcl.Range{}
}

// pretend gives gather stages the outputs that a witness has, and checks their configuration.
func gatherOnWitness(c Checked, p Prepared, e *eval.Eval, w Witness) (Gathered, Findings) {
	out := Gathered{outputs: map[string]cty.Value{}, facts: w.Facts}
	var found Findings
	for _, i := range c.order {
		if i.Spec.Phase != schema.Gather {
			continue
		}
		v, recommended, more := gatherStageOnWitness(i, c, p.env, e, w)
		if recommended != nil {
			out.recommended = recommended
		}
		found = found.join(more)
		out.outputs[i.Addr()] = v
		e = e.With(map[string]cty.Value{i.Addr(): v})
	}
	out.eval = e

	return out, found
}

func gatherStageOnWitness(i *site.Instance, c Checked, env stages.Env, e *eval.Eval, w Witness) (cty.Value, labelsByDetector, Findings) {
	t := c.types[i.Addr()]
	copies, d := e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	found := Findings{Diags: d}
	failed, byKey := map[string]cty.Value{}, map[string]cty.Value{}
	for _, one := range copies.All {
		cfg, d := i.Spec.DecodeAt(i.Body, nil, one.Scope, i.Range)
		found.report(d...)
		byKey[one.Key] = setState(value.UnknownOutput(t), stateOK)
		if state, ok := failureState(i, cfg); ok && w.Fails {
			failed[one.Key] = setState(value.Absent(t), state)
		}
		if ch, ok := i.Stage.(stages.Checker); ok && !d.HasErrors() {
			found.report(ch.Check(cfg, basis{access: env.Access, facts: w.Facts}.stageInputs(i, c.site, e))...)
		}
	}
	_, more := decodeTimeout(i, e)
	found = found.join(more)
	maps.Copy(byKey, failed)

	switch {
	case i.ForEach != nil && copies.Known:
		return makeObject(byKey), nil, found
	case len(failed) > 0 && copies.Known:
		return failed[""], nil, found
	case w.Facts != nil && i.Type == "detect-hw":
		if v, recommended, err := detectOnWitness(i, e, env, w.Facts); err == nil {
			return v, recommended, found
		}
	}
	found.Unknown = found.Unknown.join(newUnknowns(nil, partStages))

	return makeUnknownOutput(i, t), nil, found
}

// mayFail says whether the site goes on without what a stage reads, and the stage's state then: an optional object
// that is not there is no failure.
func failureState(i *site.Instance, cfg schema.Body) (state string, ok bool) {
	if i.OnFailure == "continue" {
		return stateFailed, true
	}
	return stateOK, cfg.True("optional")
}

// witnessOutput asks the stage itself, over a tape that knows the facts only, so that a witness has what a machine has.
func detectOnWitness(i *site.Instance, e *eval.Eval, env stages.Env, f *world.Facts) (cty.Value, labelsByDetector, error) {
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
