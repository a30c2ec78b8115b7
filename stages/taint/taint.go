// Package taint is the stage that adds registration taints to the node.
// It is pure: each element of its list becomes one taint. It must not change taints of a Node that exists already.
package taint

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var taintsAttr = schema.Attr[cty.Value]{
	Name:     "taints",
	Required: true,
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
		Adds:      []string{"taints"},
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
) (node.Contribution, stages.Output, hcl.Diagnostics) {
	attr := taintsAttr.Of(cfg)
	plain, _ := value.Plain(attr.Cty)
	unknown := output(cty.UnknownVal(cty.List(cty.String)))

	if diag := checkArgument(attr); diag != nil {
		return node.Contribution{}, unknown, hcl.Diagnostics{diag}
	}

	isStartup := startupAttr.Of(cfg).V
	var diags hcl.Diagnostics
	var out node.Contribution
	var texts []cty.Value

	isKnown := plain.IsKnown()
	if isKnown && !plain.IsNull() {
		for it := attr.Cty.ElementIterator(); it.Next(); {
			k, v := it.Element()
			at := elementRange(attr, k)

			t, diag := parse(v, at)
			if diag != nil {
				diags = append(diags, diag)
			}

			isKnown = isKnown && v.IsKnown()

			if t != nil {
				t.Startup = isStartup
				diags = append(diags, checkStartup(*t, at)...)
				t.Origins = attr.Origins()
				if len(t.Origins) > 0 {
					t.Origins[0].Range = at
				}
				out.Taints = append(out.Taints, *t)
				texts = append(texts, cty.StringVal(t.String()))
			}
		}
	}

	list := cty.ListValEmpty(cty.String)
	if len(texts) > 0 {
		list = cty.ListVal(texts)
	}

	if !isKnown {
		return out, unknown, diags
	}

	return out, output(list), diags
}

// checkStartup reports a taint that another program removes once the node is ready: who does, and a wrong effect.
func checkStartup(t node.Taint, at hcl.Range) hcl.Diagnostics {
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

func output(taints cty.Value) stages.Output {
	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"taints": taints})}
}

// checkArgument returns why none of the elements of `taints` can be used.
func checkArgument(attr schema.Value[cty.Value]) *hcl.Diagnostic {
	plain, secrets := value.Plain(attr.Cty)
	t := plain.Type()

	switch {
	case len(secrets) > 0:
		return origin.Error(fault.Sensitive, attr.Range, "A secret cannot be used in taints",
			"Everybody who may list nodes reads their taints.")
	case !plain.IsKnown() || plain.IsNull():
		return nil
	case !t.IsTupleType() && !t.IsListType() && !t.IsSetType():
		return origin.Error(
			fault.WrongType,
			attr.Range,
			"Wrong type for taints",
			"A list of taints is needed, as [\"nvidia.com/gpu=true:NoSchedule\"], not %s.",
			schema.TypeName(t),
		)
	}

	return nil
}

// elementRange returns where an element is written, or the argument, if its key is not a position.
func elementRange(attr schema.Value[cty.Value], key cty.Value) hcl.Range {
	plain, _ := value.Plain(key)
	if plain.Type() != cty.Number {
		return attr.Range
	}

	i, _ := plain.AsBigFloat().Int64()

	return attr.ElementRange(int(i))
}

// parse turns an element into a taint; nil if it adds none, or is unknown.
func parse(v cty.Value, at hcl.Range) (*node.Taint, *hcl.Diagnostic) {
	plain, _ := value.Plain(v)

	switch {
	case !plain.IsKnown():
		return nil, nil
	case plain.IsNull():
		return nil, origin.Note(fault.NullFact, at, "No taint", "This one is null on this machine.")
	}

	text, err := convert.Convert(plain, cty.String)
	if err != nil {
		return nil, origin.Error(
			fault.WrongType,
			at,
			"A taint must be a string",
			"Write it as \"gpu=true:NoSchedule\", KEY=VALUE:EFFECT. This is %s.",
			schema.Article(plain.Type()),
		)
	}

	t, err := kubelet.ParseTaint(text.AsString())
	if err != nil {
		return nil, origin.Error(
			fault.TaintInvalid,
			at,
			fmt.Sprintf("Invalid taint %q", text.AsString()),
			"%s",
			stages.Sentence(err.Error()),
		)
	}

	return &node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}, nil
}
