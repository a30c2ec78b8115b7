// Package taint is the stage that adds registration taints to the node.
// It is pure: each element of its list becomes one taint. It must not change taints of a Node that exists already.
package taint

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var taintsAttr = schema.Attr[cty.Value]{
	Name:     "taints",
	Type:     cty.List(cty.String),
	Required: true,
	Form:     `"gpu=true:NoSchedule", KEY=VALUE:EFFECT`,
	Secret: "Everybody who may list nodes reads their taints. Leave it out, or use another value, " +
		"such as a variable.",
	Doc: "A list in `kubectl taint`'s syntax: `key=value:Effect`, `key:Effect`. " +
		"Effects: NoSchedule, PreferNoSchedule, NoExecute. Null adds no taint.",
}

var startupAttr = schema.Attr[bool]{
	Name:    "startup",
	Default: false,
	Doc: "Another program removes these taints when the node may take pods: they are set at registration, and then " +
		"they are never compared, put back or removed.",
}

// Stage implements stages.Decider.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{
		Phase:     schema.Decide,
		ForEach:   true,
		SoftItems: true,
		Block: schema.Block{
			Type: "taint",
			Doc: "Adds taints that the node registers with. They count when its Node object is made; " +
				"later, only `kubectl taint` changes them, or `taint_credential` of the `restart` stage.",
			Fields: []schema.Field{taintsAttr, startupAttr},
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"taints": cty.List(cty.String)})
}

// Decide implements stages.Decider.
func (Stage) Decide(
	cfg schema.Body,
	_ stages.Inputs,
) (desired.Contribution, stages.Output, hcl.Diagnostics) {
	attr := taintsAttr.Of(cfg)
	isStartup := startupAttr.Of(cfg).V
	var diags hcl.Diagnostics
	var out desired.Contribution
	var texts []string
	for _, item := range attr.Items() {
		t, diag := parse(item)
		if diag != nil {
			diags = append(diags, diag)
		}
		if t != nil {
			t.Startup = isStartup
			diags = append(diags, checkStartup(*t, item.Range)...)
			out.Taints = append(out.Taints, *t)
			texts = append(texts, t.String())
		}
	}

	list := value.StringList(texts)
	if !attr.Cty.IsWhollyKnown() {
		list = cty.UnknownVal(list.Type())
	}

	return out, stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"taints": list})}, diags
}

// checkStartup reports a taint that another program removes once the node is ready: with the program's name, and a
// wrong effect.
func checkStartup(t desired.Taint, at hcl.Range) hcl.Diagnostics {
	known, ok := kubelet.FindStartupTaint(t.Key)
	switch {
	case !ok:
		return nil
	case known.Effect != "" && known.Effect != t.Effect:
		return hcl.Diagnostics{origin.Warning(
			fault.StartupTaint, at, fmt.Sprintf("Taint %s has another effect than its owner looks for", t),
			"%s, with the effect %s. Write %s:%s.",
			origin.Capitalize(known.RemoveBy), known.Effect, t.Key, known.Effect,
		)}
	}

	if t.Startup {
		return nil
	}

	return hcl.Diagnostics{origin.Note(
		fault.StartupTaint, at, fmt.Sprintf("Taint %s is for the start of the node", t),
		"%s. prelet never puts it back. Write startup = true to declare that.",
		origin.Capitalize(known.RemoveBy),
	)}
}

// parse turns an element into a taint; nil if it adds none, or is unknown.
func parse(item schema.Value[string]) (*desired.Taint, *hcl.Diagnostic) {
	switch {
	case item.Null():
		return nil, origin.Note(fault.NullFact, item.Range, "No taint", "This one is null on this machine.")
	case !item.Set():
		return nil, nil
	}

	t, err := kubelet.ParseTaint(item.V)
	if err != nil {
		return nil, origin.Error(
			fault.TaintInvalid,
			item.Range,
			fmt.Sprintf("Invalid taint %q", item.V),
			"%s",
			stages.Sentence(err.Error()),
		)
	}

	return &desired.Taint{Taint: t, Origins: item.Origins()}, nil
}
