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

// CheckFor is Check for a kubelet of a version ("1.33", "v1.33.4"), which minds flags, fields, feature gates and labels as
// that version does. "" is an unknown one.
func CheckFor(s *site.Site, witnesses []Witness, kubelet string) hcl.Diagnostics {
	return CheckWith(s, witnesses, kubelet, nil)
}

// CheckWith is CheckFor where something is known of detectors: locks answers that question.
func CheckWith(s *site.Site, witnesses []Witness, kubelet string, locks world.Source) hcl.Diagnostics {
	o := Options{Locks: locks}
	r := newRun(context.Background(), s, o)
	if r.bounded((*run).static); r.diags.HasErrors() {
		return r.diags
	}
	var found []*finding
	byPlace := map[string]*finding{}
	for _, w := range witnesses {
		for _, d := range checkOn(s, w, kubelet, o) {
			if origin.IsNote(d) && (w.Facts != nil || origin.CodeOf(d) == fault.NullFact) {
				continue // "no label on this machine" is no news of a witness
			}
			key := d.Summary
			if d.Subject != nil {
				key = d.Subject.String() + string(origin.CodeOf(d))
				if strings.HasPrefix(string(origin.CodeOf(d)), "kubelet-") { // a base is one place, and may have several fields wrong
					key += d.Summary
				}
			}
			f := byPlace[key]
			if f == nil {
				f = &finding{d: d}
				byPlace[key] = f
				found = append(found, f)
			}
			if d.Severity == hcl.DiagError && f.d.Severity != hcl.DiagError {
				f.d = d
			}
			if !slices.Contains(f.on, w.Name) {
				f.on = append(f.on, w.Name)
			}
		}
	}
	out := r.diags
	for _, f := range found {
		d := *f.d
		if f.on[0] != witnesses[0].Name { // on the first nothing is known: what is wrong there is wrong everywhere
			d.Detail += fmt.Sprintf(" (On the witness machines: %s.)", strings.Join(f.on, ", "))
		}
		out = append(out, &d)
	}
	return out
}

type finding struct {
	d  *hcl.Diagnostic
	on []string
}

// checkOn runs decide and render over one witness.
func checkOn(s *site.Site, w Witness, kubelet string, o Options) hcl.Diagnostics {
	r := newRun(context.Background(), s, o)
	if kubelet != "" {
		r.kubelet.Version = &kubelet
	}
	r.bounded((*run).static)
	r.diags = nil
	r.bounded(func(r *run) {
		if r.settings(); !r.diags.HasErrors() {
			r.open(context.Background())
		}
	})
	r.facts = w.Facts
	if r.diags.HasErrors() {
		return r.diags
	}
	r.bounded(func(r *run) {
		for _, i := range r.order {
			if i.Spec.Phase == schema.Gather {
				r.pretend(i, w)
			}
		}
		r.decide()
		r.render()
		r.minded(context.Background())
	})
	r.diags = append(r.diags, r.e.Unsupported()...)
	for n, d := range r.diags {
		code := origin.CodeOf(d)
		if w.Facts != nil && d.Severity == hcl.DiagError && (code == fault.NullFact || eval.FactCaused(d)) {
			c := *d
			c.Severity = hcl.DiagWarning
			r.diags[n] = &c
		}
		if (code == fault.ReserveRefused || code == fault.Precondition) && d.Severity == hcl.DiagError {
			r.diags[n] = origin.Note(code, rangeOf(d), d.Summary, "%s The site may not be meant for such a machine.", d.Detail)
		}
	}
	return r.diags
}

func rangeOf(d *hcl.Diagnostic) hcl.Range {
	if d.Subject != nil {
		return *d.Subject
	}
	return hcl.Range{}
}

// pretend gives a gather stage the output that a witness has, and checks its configuration.
func (r *run) pretend(i *site.Instance, w Witness) {
	t := r.types[i.Addr()]
	copies, known, d := r.e.Scope(i.Addr()).Copies(i.When, i.ForEach)
	r.diags = append(r.diags, d...)
	failed := map[string]cty.Value{}
	for _, c := range copies {
		cfg, d := i.Spec.DecodeAt(i.Body, nil, c.Scope, i.Range)
		r.diags = append(r.diags, d...)
		if state, ok := mayFail(i, cfg); ok && w.Fails {
			failed[c.Key] = withState(value.Absent(t), state)
		}
		if ch, ok := i.Stage.(stages.Checker); ok && !d.HasErrors() {
			r.diags = append(r.diags, ch.Check(cfg, r.inputs(i))...)
		}
	}
	_, d = r.timeout(i)
	r.diags = append(r.diags, d...)
	out := unknownOutput(i, t)
	byKey := map[string]cty.Value{}
	for _, c := range copies {
		byKey[c.Key] = withState(value.UnknownOutput(t), stateOK)
	}
	maps.Copy(byKey, failed)
	switch {
	case i.ForEach != nil && known:
		out = keyed(byKey)
	case len(failed) > 0 && known:
		out = failed[""]
	case w.Facts != nil && i.Type == "detect-hw":
		if v, err := r.witnessOutput(i, t, w.Facts); err == nil {
			out = v
		}
	}
	r.e.SetOutput(i.Addr(), out)
}

// mayFail says whether the site goes on without what a stage reads, and the stage's state then: an optional object
// that is not there is no failure.
func mayFail(i *site.Instance, cfg schema.Body) (state string, ok bool) {
	if i.OnFailure == "continue" {
		return stateFailed, true
	}
	return stateOK, cfg.True("optional")
}

// witnessOutput asks the stage itself, over a tape that knows the facts only, so that a witness has what a machine has.
func (r *run) witnessOutput(i *site.Instance, t cty.Type, f *world.Facts) (cty.Value, error) {
	src := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
		if q.Kind == world.KindFacts {
			b, err := json.Marshal(f)
			if err != nil {
				return world.Answer{Fail: world.Unusable, Detail: err.Error()}
			}
			return world.Answer{Value: b}
		}
		return world.Answer{Fail: world.Absent}
	})
	env := r.env
	env.Detectors = nil
	for _, d := range r.env.Detectors {
		d.Required = false
		env.Detectors = append(env.Detectors, d)
	}
	cfg, _ := i.Spec.DecodeAt(nil, nil, r.e.Scope(i.Addr()), i.Range)
	out, d := i.Stage.(stages.Gatherer).Gather(context.Background(), cfg, env, src)
	if d.HasErrors() {
		return cty.NilVal, d
	}
	r.recommended = out.Recommended
	return withState(out.Value, stateOK), nil
}
