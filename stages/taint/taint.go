// Package taint is the stage that adds registration taints to the node.
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

var taints = schema.Attr[cty.Value]{Name: "taints", Required: true, Doc: "A list in `kubectl taint`'s syntax: `key=value:Effect`, `key:Effect`. Effects: NoSchedule, PreferNoSchedule, NoExecute. Null is no taint."}

// Stage implements stages.Decider.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Decide, ForEach: true, Block: schema.Block{Type: "taint",
		Doc:    "Adds taints that the node registers with. They count when its Node object is made; later, only `kubectl taint` changes them.",
		Fields: []schema.Field{taints}}}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"taints": cty.List(cty.String)})
}

// Decide implements stages.Decider.
func (Stage) Decide(cfg schema.Body, in stages.Inputs) (node.Contribution, stages.Output, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	var out node.Contribution
	attr := taints.Of(cfg)
	unknown := stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"taints": cty.UnknownVal(cty.List(cty.String))})}
	u, secrets, unread := value.Plain(attr.Cty)
	switch {
	case len(secrets) > 0:
		return out, unknown, hcl.Diagnostics{origin.Error(fault.Sensitive, attr.Range, "A secret cannot be used in taints", "Everybody who may list nodes reads their taints.")}
	case len(unread) > 0 && (!u.IsKnown() || attr.Cty.IsMarked()):
		return out, because(unknown, unread), hcl.Diagnostics{origin.NotRead(attr.Range, "taints", unread)}
	case !u.IsKnown():
		return out, unknown, nil
	case u.IsNull():
		return out, stages.Output{Value: list(nil)}, nil
	case !u.Type().IsTupleType() && !u.Type().IsListType() && !u.Type().IsSetType():
		return out, unknown, hcl.Diagnostics{origin.Error(fault.WrongType, attr.Range, "Wrong type for taints", "A list of taints is needed, as [\"nvidia.com/gpu=true:NoSchedule\"], not %s.", schema.TypeName(u.Type()))}
	}
	var texts []cty.Value
	known := true
	for it := attr.Cty.ElementIterator(); it.Next(); {
		k, v := it.Element()
		k, _, _ = value.Plain(k)
		v, _, unread := value.Plain(v)
		at := attr.Range
		if k.Type() == cty.Number {
			i, _ := k.AsBigFloat().Int64()
			at = attr.ElementRange(int(i))
		}
		switch {
		case len(unread) > 0:
			diags = append(diags, origin.NotRead(at, "a taint", unread))
			fallthrough
		case !v.IsKnown():
			known = false
			continue
		case v.IsNull():
			diags = append(diags, origin.Note(fault.NullFact, at, "No taint", "This one is null on this machine."))
			continue
		}
		s, err := convert.Convert(v, cty.String)
		if err != nil {
			diags = append(diags, origin.Error(fault.WrongType, at, "A taint must be a string",
				"Write it as \"gpu=true:NoSchedule\", KEY=VALUE:EFFECT. This is %s.", schema.Article(v.Type())))
			continue
		}
		t, err := kubelet.ParseTaint(s.AsString())
		if err != nil {
			diags = append(diags, origin.Error(fault.TaintInvalid, at, fmt.Sprintf("%q is no taint", s.AsString()), "%s", stages.Sentence(err.Error())))
			continue
		}
		x := node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, Origins: attr.Origins()}
		if len(x.Origins) > 0 {
			x.Origins[0].Range = at
		}
		out.Taints = append(out.Taints, x)
		texts = append(texts, cty.StringVal(x.String()))
	}
	switch {
	case len(unread) > 0: // one that cannot be told may fail, and takes the others with it
		return node.Contribution{}, because(unknown, unread), diags
	case !known:
		return out, unknown, diags
	}
	return out, stages.Output{Value: list(texts)}, diags
}

func because(o stages.Output, unread []string) stages.Output {
	return stages.Output{Value: value.Because(o.Value, unread)}
}

func list(v []cty.Value) cty.Value {
	l := cty.ListValEmpty(cty.String)
	if len(v) > 0 {
		l = cty.ListVal(v)
	}
	return cty.ObjectVal(map[string]cty.Value{"taints": l})
}
