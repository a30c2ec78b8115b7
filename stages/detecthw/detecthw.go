// Package detecthw is the stage that looks at the hardware: the built-in facts, and what vendor detectors add.
package detecthw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var (
	detectors = schema.Attr[[]string]{Name: "detectors", Type: cty.List(cty.String), DefaultText: "all that the site declares",
		Doc: "Which of the site's detectors are asked."}
	links = schema.Attr[[]string]{Name: "links", Type: cty.List(cty.String),
		Doc: "Interfaces whose link must be up: one that is still training is not \"no link\"."}
	drivers = schema.Attr[[]string]{Name: "drivers", Type: cty.List(cty.String),
		Doc: "Drivers that must be bound to a device."}
	timeout = schema.Attr[string]{Name: "timeout", Default: "30s", Check: schema.Duration,
		Doc: "How long to wait. What is still missing then is told as degraded, and detection goes on."}
	wait = schema.Block{Type: "wait", Max: 1, Doc: "What to wait for before looking.", Fields: []schema.Field{links, drivers, timeout}}
)

// Stage implements stages.Gatherer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Gather, Singleton: true, Timeout: 90 * time.Second, Block: schema.Block{Type: "detect-hw",
		Doc:    "Looks at the hardware. Unknown is null, and `unknown` says why; lists are sorted by PCI address, then name.",
		Fields: []schema.Field{detectors}, Blocks: []schema.Block{wait}}}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(d stages.Declared) cty.Type {
	m := map[string]cty.Type{}
	for k, t := range factsType().AttributeTypes() {
		m[k] = t
	}
	m["gpus"] = m["accelerators"]
	byName := map[string]cty.Type{}
	for _, n := range d.Detectors {
		byName[n] = detectorType
	}
	m["detectors"] = cty.Object(byName)
	return cty.Object(m)
}

// detectorType is what one detector adds.
var detectorType = cty.Object(map[string]cty.Type{
	"state": cty.String, "version": cty.String, "attributes": cty.Map(cty.String), "labels": cty.Map(cty.String), "warnings": cty.List(cty.String),
	"devices": cty.List(cty.Object(map[string]cty.Type{"address": cty.String, "name": cty.String, "attributes": cty.Map(cty.String)})),
	"facts":   cty.EmptyObject,
})

// Gather implements stages.Gatherer.
func (s Stage) Gather(ctx context.Context, cfg schema.Body, env stages.Env, r world.Source) (stages.Output, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	var req world.FactsReq
	if w, ok := cfg.One("wait"); ok {
		d, _ := time.ParseDuration(timeout.Of(w).V)
		req = world.FactsReq{WaitLinks: links.Of(w).V, WaitDrivers: drivers.Of(w).V, WaitMillis: d.Milliseconds()}
	}
	facts, ans, err := world.FactsOf.Ask(ctx, r, req)
	declared := stages.Declared{}
	for _, d := range env.Detectors {
		declared.Detectors = append(declared.Detectors, d.Name)
	}
	typ := s.Outputs(declared)
	var failed *world.Failed
	if errors.As(err, &failed) {
		if failed.Answer.Fail == world.Unread {
			return stages.Output{Value: value.UnknownOutput(typ)}, hcl.Diagnostics{origin.NotRead(cfg.Range, "the hardware", []string{"facts"})}
		}
		return stages.Output{}, hcl.Diagnostics{origin.Error(origin.HardwareFailed, cfg.Range, "The hardware cannot be read", "%s", stages.Sentence(failed.Answer.Detail, failed.Answer.Hint))}
	}
	for _, u := range facts.Unknown {
		if !u.Degraded {
			continue
		}
		if at, ok := awaited(cfg, u.Fact); ok && u.Why != "" {
			diags = append(diags, origin.Warning(origin.HardwareDegraded, at, "Waited in vain for "+u.Fact, "%s", stages.Sentence(strings.ToUpper(u.Why[:1])+u.Why[1:], "What was found without it is used.")))
			continue
		}
		diags = append(diags, origin.Warning(origin.HardwareDegraded, cfg.Range, "Fact "+u.Fact+" could not be read", "It is unknown: %s.", u.Why))
	}
	v, err := factsValue(facts)
	if err != nil {
		return stages.Output{}, append(diags, origin.Error(origin.HardwareFailed, cfg.Range, "The facts cannot be understood", "%s.", err))
	}
	if v, err = withhold(v, ans.Withheld); err != nil {
		return stages.Output{}, append(diags, origin.Error(origin.RecordingInvalid, cfg.Range, "The recording withholds what is no fact", "%s.", err))
	}
	m := map[string]cty.Value{}
	for k := range v.Type().AttributeTypes() {
		m[k] = v.GetAttr(k)
	}
	m["gpus"] = gpus(facts, m["accelerators"])
	byName, recommended := map[string]cty.Value{}, map[string]map[string]string{}
	chosen := detectors.Of(cfg)
	for _, d := range env.Detectors {
		state := ""
		if chosen.Set() && !slices.Contains(chosen.V, d.Name) {
			state = "skipped"
		}
		x, labels, ds := detector(ctx, d, state, r)
		if len(labels) > 0 {
			recommended[d.Name] = labels
		}
		byName[d.Name] = x
		diags = append(diags, ds...)
	}
	diags = append(diags, choice(cfg, declared.Detectors)...)
	m["detectors"] = cty.ObjectVal(byName)
	return stages.Output{Value: cty.ObjectVal(m), Facts: &facts, Recommended: recommended}, diags
}

// awaited finds where the site waits for what facts call "link ib0" or "driver nvidia".
func awaited(cfg schema.Body, fact string) (hcl.Range, bool) {
	w, ok := cfg.One("wait")
	if !ok {
		return hcl.Range{}, false
	}
	for kind, attr := range map[string]schema.Value[[]string]{"link ": links.Of(w), "driver ": drivers.Of(w)} {
		for i, name := range attr.V {
			if fact == kind+name {
				return attr.ElementRange(i), true
			}
		}
	}
	return hcl.Range{}, false
}

// Check implements stages.Checker.
func (Stage) Check(cfg schema.Body, in stages.Inputs) hcl.Diagnostics {
	return choice(cfg, in.Detectors)
}

// choice refuses detectors that the site does not declare.
func choice(cfg schema.Body, declared []string) (diags hcl.Diagnostics) {
	chosen := detectors.Of(cfg)
	for i, n := range chosen.V {
		if !slices.Contains(declared, n) {
			diags = append(diags, origin.Error(origin.Reference, chosen.ElementRange(i), fmt.Sprintf("There is no detector %q", n), "Declare it: detector %q {}. %s", n, schema.Suggest(n, declared)))
		}
	}
	return diags
}

func gpus(f world.Facts, all cty.Value) cty.Value {
	var out []cty.Value
	for i, a := range f.Accelerators {
		if a.Kind == "gpu" {
			out = append(out, all.Index(cty.NumberIntVal(int64(i))))
		}
	}
	if len(out) == 0 {
		return cty.ListValEmpty(all.Type().ElementType())
	}
	return cty.ListVal(out)
}

func detector(ctx context.Context, d stages.Detector, state string, r world.Source) (cty.Value, map[string]string, hcl.Diagnostics) {
	absent := func(state string) cty.Value {
		m := value.Absent(detectorType).AsValueMap()
		m["state"] = cty.StringVal(state)
		return cty.ObjectVal(m)
	}
	if state != "" {
		return absent(state), nil, nil
	}
	said, ans, err := world.DetectorOf.Ask(ctx, r, world.DetectorReq{Name: d.Name, Config: d.Config, Millis: d.Timeout.Milliseconds()})
	switch {
	case ans.Fail == world.Unread:
		return value.UnknownOutput(detectorType), nil, hcl.Diagnostics{origin.NotRead(d.Range, "detector "+d.Name, []string{"detector " + d.Name})}
	case err == nil:
		v, err := value.FromJSONTyped(ans.Value, detectorType)
		if err != nil {
			return absent("failed"), nil, hcl.Diagnostics{origin.Error(origin.DetectorFailed, d.Range, fmt.Sprintf("Detector %q gave nonsense", d.Name), "%s.", err)}
		}
		m := v.AsValueMap()
		m["state"] = cty.StringVal("ok")
		return cty.ObjectVal(m), said.Labels, nil
	case d.Required:
		return absent("failed"), nil, hcl.Diagnostics{origin.Error(origin.DetectorFailed, d.Range, fmt.Sprintf("Detector %q is required", d.Name), "%s", stages.Sentence(ans.Detail, ans.Hint))}
	}
	state = "failed"
	if ans.Fail == world.Absent {
		state = "absent"
	}
	return absent(state), nil, hcl.Diagnostics{origin.Warning(origin.DetectorDegraded, d.Range, fmt.Sprintf("Detector %q is %s", d.Name, state), "%s", stages.Sentence(ans.Detail, ans.Hint))}
}
