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
func Detect(ctx context.Context, s *site.Site, from world.Source) (Detected, hcl.Diagnostics) {
	r := newRun(ctx, s, Options{Source: from})
	var out Detected
	i := slices.IndexFunc(s.Stages, func(i *site.Instance) bool { return i.Type == "detect-hw" })
	if i < 0 {
		f, _, err := world.FactsOf.Ask(ctx, r.tape, world.FactsReq{})
		if err != nil {
			out.Failed = err
			return out, nil
		}
		out.Facts = &f
		for _, u := range f.Unknown {
			if u.Degraded {
				out.Degraded = append(out.Degraded, Degraded{fault.HardwareDegraded, u.Fact + ": " + u.Why})
			}
		}
	} else if diags := r.detect(ctx, s.Stages[i], &out); out.Facts == nil {
		return out, diags
	} else {
		r.diags = append(r.diags, diags...)
	}
	var err error
	if out.Raw, err = json.Marshal(out.Facts); err != nil {
		out.Failed = errors.Join(out.Failed, err)
	}
	return out, r.diags
}

// detect is the one stage, live.
func (r *run) detect(ctx context.Context, i *site.Instance, out *Detected) hcl.Diagnostics {
	r.bounded(func(r *run) {
		if r.settings(); !r.diags.HasErrors() {
			r.open(ctx)
		}
	})
	if r.diags.HasErrors() {
		return r.diags
	}
	cfg, diags := i.Spec.DecodeAt(i.Body, nil, r.e.Scope(i.Addr()), i.Range)
	if diags.HasErrors() {
		return diags
	}
	ctx, cancel := context.WithTimeout(ctx, max(i.Spec.Timeout, time.Minute))
	defer cancel()
	found, ds := i.Stage.(stages.Gatherer).Gather(ctx, cfg, r.env, r.tape)
	diags = append(diags, ds...)
	r.degradedBy(ds)
	out.Facts, out.Degraded = found.Facts, r.degraded
	if found.Facts == nil {
		return diags
	}
	if all, err := value.ToGo(found.Value.GetAttr("detectors")); err == nil {
		out.Detectors, _ = all.(map[string]any)
	}
	return diags
}

// Detectors are the site's detector blocks, evaluated, with their locks. Nothing is run.
func Detectors(ctx context.Context, s *site.Site, from world.Source) ([]stages.Detector, hcl.Diagnostics) {
	r := newRun(ctx, s, Options{Source: from})
	r.bounded(func(r *run) {
		if r.settings(); !r.diags.HasErrors() {
			r.open(ctx)
		}
	})
	return r.env.Detectors, r.diags
}
