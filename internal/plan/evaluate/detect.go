package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Detected is the result of detect-hw alone.
type Detected struct {
	Facts     *tape.Facts     // nil: diagnostics or Failed have the reason
	Raw       json.RawMessage // the same as JSON
	Detectors map[string]any  // as sites see them, by name
	Degraded  []fault.Reason
	Failed    error // the error of the question for facts
}

// Detect runs only the site's stage detect-hw with its detectors; without such a stage it asks for facts.
func Detect(
	ctx context.Context, s *lang.Site, from tape.Source,
) (out Detected, diags hcl.Diagnostics) {
	if all := s.OfType(stages.DetectHW); len(all) > 0 {
		out, diags = runDetect(ctx, s, all[0], from)
	} else {
		out = askFacts(ctx, from)
	}
	if out.Facts == nil {
		return out, diags
	}

	raw, err := json.Marshal(out.Facts)
	out.Raw = raw
	out.Failed = errors.Join(out.Failed, err)

	return out, diags
}

// askFacts returns the facts of a site without detect-hw.
func askFacts(ctx context.Context, from tape.Source) (out Detected) {
	f, _, err := tape.Hardware.Ask(ctx, from, tape.HardwareReq{})
	if err != nil {
		return Detected{Failed: err}
	}

	out.Facts = &f
	for _, u := range f.Unknown {
		if u.Degraded {
			out.Degraded = append(out.Degraded, fault.Reason{
				Code:    fault.HardwareDegraded,
				Summary: u.Fact + ": " + u.Why,
			})
		}
	}

	return out
}

// runDetect runs one detect-hw stage, for at most its own timeout or a minute, whichever is longer.
func runDetect(ctx context.Context, s *lang.Site, i *lang.Instance, from tape.Source) (
	out Detected, _ hcl.Diagnostics,
) {
	p := prepareRun(ctx, s, from)
	if p.hasErrors() {
		return out, p.Diags
	}

	e := p.eval.Fork()
	cfg, found := runStep(ctx, p.limits, func() (schema.Body, Findings) {
		cfg, diags := decodeStage(i, e.Scope(i.Addr()))
		return cfg, newFindings(diags...)
	})
	if found.Diags.HasErrors() {
		return out, found.Diags
	}

	ctx, cancel := context.WithTimeout(ctx, max(i.Spec.Timeout, time.Minute))
	defer cancel()

	gatherer := i.Stage.(stages.Gatherer)
	gathered, diags := gatherer.Gather(ctx, cfg, p.prepared.env, p.tape)
	found.Report(diags...)
	found.degradeFor(diags)
	out.Degraded = found.Degraded
	if gathered.Facts != nil {
		facts := *gathered.Facts
		facts.Unknown = slices.Concat(facts.Unknown, listUnknown(p.tape))
		out.Facts = &facts
		if all, err := codec.ToGo(gathered.Value.GetAttr("detectors")); err == nil {
			out.Detectors, _ = all.(map[string]any)
		}
	}

	return out, slices.Concat(p.Diags, found.Diags)
}

// listUnknown returns the facts of detectors that are null, with their reasons.
func listUnknown(t *tape.Tape) (out []tape.UnknownFact) {
	for _, e := range t.Entries() {
		request, err := tape.Detector.Request(e.Question)
		var a tape.DetectorAns
		if e.Kind != tape.KindDetector || err != nil || json.Unmarshal(e.Answer.Value, &a) != nil {
			continue
		}
		for _, fact := range slices.Sorted(maps.Keys(a.Unknown)) {
			name := "detectors." + request.Name + "." + fact
			out = append(out, tape.UnknownFact{Fact: name, Why: a.Unknown[fact]})
		}
	}

	return out
}

// Detectors returns the site's detector blocks, evaluated, with their locks. No detector is run.
func Detectors(
	ctx context.Context, s *lang.Site, from tape.Source,
) ([]stages.Detector, hcl.Diagnostics) {
	p := prepareRun(ctx, s, from)

	return p.prepared.env.Detectors, p.Diags
}

// prepareRun runs the steps settings and prepare over a source.
func prepareRun(ctx context.Context, s *lang.Site, from tape.Source) *progress {
	p := startRun(ctx, s, RunInput{Source: from}, limit.Default())
	p.runAll(ctx, p.runSettings, p.runPrepare)

	return p
}
