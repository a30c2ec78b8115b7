// Package detecthw is the stage that looks at the hardware: the built-in facts, and what vendor detectors add.
package detecthw

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
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
	for n, described := range d.Detectors {
		byName[n] = detectorType(described)
	}
	m["detectors"] = cty.Object(byName)
	return cty.Object(m)
}

// Gather implements stages.Gatherer.
func (s Stage) Gather(ctx context.Context, cfg schema.Body, env stages.Env, r world.Source) (stages.Output, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	var req world.FactsReq
	if w, ok := cfg.One("wait"); ok {
		d, _ := time.ParseDuration(timeout.Of(w).V)
		req = world.FactsReq{WaitLinks: links.Of(w).V, WaitDrivers: drivers.Of(w).V, WaitMillis: d.Milliseconds()}
	}
	facts, ans, err := world.FactsOf.Ask(ctx, r, req)
	declared := stages.Declared{Detectors: map[string]*contract.Description{}}
	var names []string
	for _, d := range env.Detectors {
		declared.Detectors[d.Name] = d.Describe
		names = append(names, d.Name)
	}
	switch {
	case ans.Code() == fault.Unread:
		why := []string{"facts"}
		return stages.Output{Value: value.Because(value.UnknownOutput(s.Outputs(declared)), why), Unread: why},
			hcl.Diagnostics{origin.NotRead(cfg.Range, "the hardware", why)}
	case err != nil:
		return stages.Output{}, hcl.Diagnostics{stages.Diagnose(cfg.Range, ans.Fault.Raise(fault.HardwareFailed, "The hardware cannot be read"))}
	}
	for _, u := range facts.Unknown {
		if !u.Degraded {
			continue
		}
		if at, ok := awaited(cfg, u.Fact); ok && u.Why != "" {
			diags = append(diags, origin.Warning(fault.HardwareDegraded, at, "Waited in vain for "+u.Fact, "%s", stages.Sentence(strings.ToUpper(u.Why[:1])+u.Why[1:], "What was found without it is used.")))
			continue
		}
		diags = append(diags, origin.Warning(fault.HardwareDegraded, cfg.Range, "Fact "+u.Fact+" could not be read", "It is unknown: %s.", u.Why))
	}
	chosen := detectors.Of(cfg)
	all := askAll(ctx, env.Detectors, func(name string) bool { return !chosen.Set() || slices.Contains(chosen.V, name) }, facts, r)
	merge(&facts, all)

	v, err := factsValue(facts)
	if err != nil {
		return stages.Output{}, append(diags, origin.Error(fault.HardwareFailed, cfg.Range, "The facts cannot be understood", "%s.", err))
	}
	v, err = withhold(v, "facts", ans.Withheld)
	if err != nil {
		return stages.Output{}, append(diags, origin.Error(fault.RecordingInvalid, cfg.Range, "The recording withholds an unknown fact", "The recording cannot be used: %s.", err))
	}

	m := v.AsValueMap()
	if facts.BlockDevices == nil { // in a recording that is older than these facts
		for _, name := range []string{"bios", "chassis", "baseboard", "block_devices"} {
			m[name] = value.UnreadVal(m[name].Type(), "facts /"+name)
		}
	}
	m["gpus"] = gpus(facts, m["accelerators"])
	byName, labels := map[string]cty.Value{}, recommended(all)
	var unread []string
	for _, d := range all {
		byName[d.Name] = d.value()
		unread = append(unread, d.unread()...)
		diags = append(diags, d.diags...)
	}
	diags = append(diags, choice(cfg, names)...)
	m["detectors"] = cty.ObjectVal(byName)
	return stages.Output{Value: cty.ObjectVal(m), Facts: &facts, Recommended: labels, Unread: unread}, diags
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
			diags = append(diags, origin.Error(fault.Reference, chosen.ElementRange(i), fmt.Sprintf("There is no detector %q", n), "Declare it: detector %q {}. %s", n, schema.Suggest(n, declared)))
		}
	}
	return diags
}

func gpus(f world.Facts, all cty.Value) cty.Value {
	if !all.IsKnown() {
		return all
	}
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
