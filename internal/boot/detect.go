package boot

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Detected is what detect-hw alone finds.
type Detected struct {
	Facts     *world.Facts    // nil: nothing was found, and diagnostics or Failed say why
	Raw       json.RawMessage // the same as JSON
	Detectors map[string]any  // as sites see them, by name
	Degraded  []Degraded
	Failed    error // the question for the facts
}

// Detect runs the site's stage detect-hw with its detectors and nothing else; without such a stage it is the facts.
func Detect(ctx context.Context, s *site.Site, from world.Source) (out Detected, diags hcl.Diagnostics) {
	if i := slices.IndexFunc(s.Stages, func(i *site.Instance) bool { return i.Type == "detect-hw" }); i < 0 {
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

// factsAlone are those of a site without detect-hw.
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

// detect is the one stage, live.
func runDetect(ctx context.Context, s *site.Site, i *site.Instance, from world.Source) (out Detected, _ hcl.Diagnostics) {
	m, t := prepareRun(ctx, s, from)
	if m.hasErrors() {
		return out, m.Diags
	}
	e := m.eval.Fork()
	cfg, found := runStep(t.limits, func() (schema.Body, Findings) {
		cfg, diags := i.Spec.DecodeAt(i.Body, nil, e.Scope(i.Addr()), i.Range)
		return cfg, Findings{Diags: diags}
	})
	if found.Diags.HasErrors() {
		return out, found.Diags
	}
	ctx, cancel := context.WithTimeout(ctx, max(i.Spec.Timeout, time.Minute))
	defer cancel()
	gathered, diags := i.Stage.(stages.Gatherer).Gather(ctx, cfg, m.prepared.env, m.tape)
	found.report(diags...)
	found.degradeFor(diags)
	out.Facts, out.Degraded = gathered.Facts, found.Degraded
	if gathered.Facts == nil {
		return out, slices.Concat(m.Diags, found.Diags)
	}
	if all, err := value.ToGo(gathered.Value.GetAttr("detectors")); err == nil {
		out.Detectors, _ = all.(map[string]any)
	}

	return out, slices.Concat(m.Diags, found.Diags)
}

// Detectors are the site's detector blocks, evaluated, with their locks. Nothing is run.
func Detectors(ctx context.Context, s *site.Site, from world.Source) ([]stages.Detector, hcl.Diagnostics) {
	m, _ := prepareRun(ctx, s, from)

	return m.prepared.env.Detectors, m.Diags
}

// prepareFor begins a run over a source and comes to what gather stages need.
func prepareRun(ctx context.Context, s *site.Site, from world.Source) (*progress, runtimeEnv) {
	t := newRuntimeEnv(Options{}, defaultLimits())
	m, locks := startRun(ctx, s, Options{Source: from})
	if m.runSettings(t); !m.hasErrors() {
		m.runPrepare(locks, t)
	}

	return m, t
}
