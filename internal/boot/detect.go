package boot

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Detected is the result of detect-hw alone.
type Detected struct {
	Facts     *world.Facts    // nil: diagnostics or Failed have the reason
	Raw       json.RawMessage // the same as JSON
	Detectors map[string]any  // as sites see them, by name
	Degraded  []Degraded
	Failed    error // the error of the question for facts
}

// Detect runs the site's stage detect-hw with its detectors and nothing else; without such a stage it asks for facts.
func Detect(ctx context.Context, s *site.Site, from world.Source) (out Detected, diags hcl.Diagnostics) {
	i := slices.IndexFunc(s.Stages, func(i *site.Instance) bool { return i.Type == "detect-hw" })
	if i < 0 {
		out = askFacts(ctx, from)
	} else {
		out, diags = runDetect(ctx, s, s.Stages[i], from)
	}
	if out.Facts == nil {
		return out, diags
	}

	raw, err := json.Marshal(out.Facts)
	out.Raw, out.Failed = raw, errors.Join(out.Failed, err)

	return out, diags
}

// askFacts returns the facts of a site without detect-hw.
func askFacts(ctx context.Context, from world.Source) (out Detected) {
	f, _, err := world.FactsOf.Ask(ctx, from, world.FactsReq{})
	if err != nil {
		return Detected{Failed: err}
	}

	out.Facts = &f
	for _, u := range f.Unknown {
		if u.Degraded {
			out.Degraded = append(out.Degraded, Degraded{fault.HardwareDegraded, u.Fact + ": " + u.Why})
		}
	}

	return out
}

// runDetect runs one detect-hw stage, within its own timeout but for at least a minute.
func runDetect(ctx context.Context, s *site.Site, i *site.Instance, from world.Source) (
	out Detected, _ hcl.Diagnostics,
) {
	p, env := prepareRun(ctx, s, from)
	if p.hasErrors() {
		return out, p.Diags
	}

	e := p.eval.Fork()
	cfg, found := runStep(env.limits, func() (schema.Body, Findings) {
		cfg, diags := i.Spec.DecodeAt(i.Body, nil, e.Scope(i.Addr()), i.Range)
		return cfg, Findings{Diags: diags}
	})
	if found.Diags.HasErrors() {
		return out, found.Diags
	}

	ctx, cancel := context.WithTimeout(ctx, max(i.Spec.Timeout, time.Minute))
	defer cancel()

	gathered, diags := i.Stage.(stages.Gatherer).Gather(ctx, cfg, p.prepared.env, p.tape)
	found.report(diags...)
	found.degradeFor(diags)
	out.Facts, out.Degraded = gathered.Facts, found.Degraded
	if gathered.Facts == nil {
		return out, slices.Concat(p.Diags, found.Diags)
	}
	if all, err := value.ToGo(gathered.Value.GetAttr("detectors")); err == nil {
		out.Detectors, _ = all.(map[string]any)
	}

	return out, slices.Concat(p.Diags, found.Diags)
}

// Detectors returns the site's detector blocks, evaluated, with their locks. No detector is run.
func Detectors(ctx context.Context, s *site.Site, from world.Source) ([]stages.Detector, hcl.Diagnostics) {
	p, _ := prepareRun(ctx, s, from)

	return p.prepared.env.Detectors, p.Diags
}

// prepareRun runs the steps settings and prepare over a source.
func prepareRun(ctx context.Context, s *site.Site, from world.Source) (*progress, runtimeEnv) {
	env := newRuntimeEnv(Options{}, defaultLimits())
	p, locks := startRun(ctx, s, Options{Source: from})
	if p.runSettings(env); !p.hasErrors() {
		p.runPrepare(locks, env)
	}

	return p, env
}
