// Package label is the stage that adds labels to the node.
package label

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
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

var (
	labels        = schema.Attr[cty.Value]{Name: "labels", Items: true, Doc: "Keys and values, as `kubectl label` takes them. Numbers and booleans are written as text. Null is no label. An item that cannot be told because a fact is null is left out, and the boot is degraded."}
	fromDetectors = schema.Attr[[]string]{Name: "from_detectors", Type: cty.List(cty.String), Doc: "Which of the labels that detectors recommend are taken, as shell patterns of keys: `nvidia.com/*`."}
)

// Stage implements stages.Decider.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Decide, ForEach: true, Block: schema.Block{Type: "label",
		Doc:    "Adds labels. The kubelet registers with them; keys that it refuses inside kubernetes.io and k8s.io are refused here.",
		Fields: []schema.Field{labels, fromDetectors}}}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"labels": cty.Map(cty.String)})
}

// Decide implements stages.Decider.
func (Stage) Decide(cfg schema.Body, in stages.Inputs) (node.Contribution, stages.Output, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	var out node.Contribution
	attr := labels.Of(cfg)
	values := map[string]cty.Value{}
	unknown := false
	u, secrets, unread := value.Plain(attr.Cty)
	switch {
	case len(unread) > 0 && (!u.IsKnown() || attr.Cty.IsMarked() || !literal(attr.Expr)):
		return out, untold(unread), hcl.Diagnostics{origin.NotRead(attr.Range, "labels", unread)}
	case !u.IsKnown() || u.IsNull():
		unknown = !u.IsKnown()
	case !u.Type().IsObjectType() && !u.Type().IsMapType():
		return out, untold(nil), hcl.Diagnostics{origin.Error(fault.WrongType, attr.Range, "Wrong type for labels", "A map of keys to values is needed, not %s.", schema.TypeName(u.Type()))}
	case len(secrets) > 0 && (attr.Cty.IsMarked() || u.LengthInt() == 0):
		return out, untold(nil), hcl.Diagnostics{refuseSecret(attr.Range, "labels")}
	default:
		for it := attr.Cty.ElementIterator(); it.Next(); {
			k, v := it.Element()
			key, _, _ := value.Plain(k)
			l, d := one(attr, key.AsString(), v, in)
			diags = append(diags, d...)
			if l != nil {
				out.Labels = append(out.Labels, *l)
				values[l.Key] = cty.StringVal(l.Value)
			} else if !v.IsWhollyKnown() || len(value.Questions(v)) > 0 {
				unknown = true
			}
		}
	}
	out.Labels = append(out.Labels, recommended(cfg, in, values, &diags)...)
	if len(fromDetectors.Of(cfg).V) > 0 && len(in.Unread.Detectors) > 0 {
		unknown, unread = true, append(unread, in.Unread.Detectors...)
	}
	slices.SortStableFunc(out.Labels, func(a, b node.Label) int { return strings.Compare(a.Key, b.Key) })
	if unknown {
		return out, untold(unread), diags
	}

	m := cty.MapValEmpty(cty.String)
	if len(values) > 0 {
		m = cty.MapVal(values)
	}

	return out, stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"labels": m})}, diags
}

// literal says whether the items stand by themselves. Any other expression fails as a whole, and one that a recording
// does not tell whole may have.
func literal(x hclsyntax.Expression) bool {
	_, ok := value.Unwrap(x).(*hclsyntax.ObjectConsExpr)
	return ok
}

// untold is the output where not every label is known, for lack of the answers to those questions.
func untold(unread []string) stages.Output {
	labels := value.Because(cty.UnknownVal(cty.Map(cty.String)), unread)

	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"labels": labels})}
}

func refuseSecret(at hcl.Range, what string) *hcl.Diagnostic {
	return origin.Error(fault.Sensitive, at, "A secret cannot be used in "+what, "Everybody who may list nodes reads their labels.")
}

// one turns an item into a label; nil where there is none. Key and value are checked once each, the key also where the
// value is not known.
func one(attr schema.Value[cty.Value], key string, v cty.Value, in stages.Inputs) (*node.Label, hcl.Diagnostics) {
	at := attr.ItemRange(key)
	if d := checkKey(key, attr.KeyRange(key), in); d != nil {
		return nil, hcl.Diagnostics{d}
	}
	u, secrets, unread := value.Plain(v)
	switch {
	case len(secrets) > 0:
		return nil, hcl.Diagnostics{refuseSecret(at, "label "+key)}
	case len(unread) > 0:
		return nil, hcl.Diagnostics{origin.NotRead(at, "label "+key, unread)}
	case !u.IsKnown() && !u.Type().IsPrimitiveType() && u.Type() != cty.DynamicPseudoType:
		return nil, noText(at, key, fmt.Errorf("it is a %s", schema.TypeName(u.Type())))
	case !u.IsKnown():
		return nil, nil
	case u.IsNull():
		return nil, hcl.Diagnostics{origin.Note(fault.NullFact, at, "No label "+key, "Its value is null on this machine.")}
	}
	s, err := convert.Convert(u, cty.String)
	if err != nil {
		return nil, noText(at, key, err)
	}
	l := &node.Label{Key: key, Value: s.AsString(), Origins: attr.ItemOrigins(key)}
	if d := checkValue(l.Key, l.Value, at); d != nil {
		return nil, hcl.Diagnostics{d}
	}
	if err := kubelet.CheckOwnLabel(l.Key, l.Value); err != nil {
		return nil, hcl.Diagnostics{origin.Error(fault.LabelForbidden, at, "Label "+key+" is the kubelet's own", "%s", stages.Sentence(err.Error()))}
	}

	return l, nil
}

func noText(at hcl.Range, key string, why error) hcl.Diagnostics {
	return hcl.Diagnostics{origin.Error(fault.WrongType, at, "Label "+key+" is no text", "%s: a string, number, boolean or null is needed.", why)}
}

// checkKey refuses a key that is malformed, and one that this kubelet may not set.
func checkKey(key string, at hcl.Range, in stages.Inputs) *hcl.Diagnostic {
	if err := kubelet.CheckLabelKey(key); err != nil {
		return origin.Error(fault.LabelInvalid, at, fmt.Sprintf("%q is no label key", key), "%s",
			stages.Sentence(err.Error(), "A key is NAME, or DOMAIN/NAME"))
	}
	version := ""
	if in.Kubelet.Version != nil {
		version = *in.Kubelet.Version
	}
	if err := kubelet.CheckNodeKey(key, version); err != nil {
		return origin.Error(fault.LabelForbidden, at, fmt.Sprintf("The kubelet may not set label %s", key), "%s", stages.Sentence(err.Error()))
	}

	return nil
}

func checkValue(key, val string, at hcl.Range) *hcl.Diagnostic {
	if err := kubelet.CheckLabelValue(key, val); err != nil {
		return origin.Error(fault.LabelInvalid, at, fmt.Sprintf("Label %s is not valid", key), "%s",
			stages.Sentence(err.Error(), "slug() makes a valid value of any text"))
	}

	return nil
}

// recommended takes the labels of detectors that the site's patterns name.
func recommended(cfg schema.Body, in stages.Inputs, have map[string]cty.Value, diags *hcl.Diagnostics) (out []node.Label) {
	patterns := fromDetectors.Of(cfg)
	if len(patterns.V) > 0 && len(in.Unread.Detectors) > 0 {
		*diags = append(*diags, origin.NotRead(patterns.Range, "from_detectors", in.Unread.Detectors))
	}
	for _, p := range patterns.V {
		if _, err := path.Match(p, "x"); err != nil {
			*diags = append(*diags, origin.Error(fault.LabelInvalid, patterns.Range, fmt.Sprintf("%q is no pattern", p), "A shell pattern is needed, as nvidia.com/*."))
			return nil
		}
	}
	for _, d := range slices.Sorted(maps.Keys(in.Recommended)) {
		for _, k := range slices.Sorted(maps.Keys(in.Recommended[d])) {
			taken := slices.ContainsFunc(patterns.V, func(p string) bool { ok, _ := path.Match(p, k); return ok })
			if _, dup := have[k]; !taken || dup {
				continue
			}
			v := in.Recommended[d][k]
			if d := cmp.Or(checkKey(k, patterns.Range, in), checkValue(k, v, patterns.Range)); d != nil {
				*diags = append(*diags, d)
				continue
			}
			have[k] = cty.StringVal(v)
			out = append(out, node.Label{Key: k, Value: v, Origins: append(patterns.Origins(),
				origin.Origin{Kind: origin.Detector, Role: origin.Value, Ref: "detector." + d, Text: k + "=" + v})})
		}
	}
	return out
}
