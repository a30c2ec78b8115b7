package schema

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
)

// Evaluator gives expressions their values. The language's evaluator is the real one; tests bring their own.
type Evaluator interface {
	// Value evaluates one attribute. Diagnostics without an error mean that the value stands (a left-out item
	// of a map, for example).
	Value(s Spec, e hclsyntax.Expression) (cty.Value, hcl.Diagnostics)
	// Item finds the expression that gave one key of a map or object; nil if it cannot be told.
	Item(e hclsyntax.Expression, key string) hclsyntax.Expression
	// Origins says what an expression rests on: itself, and what it refers to.
	Origins(e hclsyntax.Expression) []origin.Origin
	// Default gives the value of an attribute that is not written and whose default is another stage's output.
	Default(s Spec, at hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics)
	// Expand says how often a block with when or for_each is there, and how each copy is evaluated.
	Expand(body *hclsyntax.Body) ([]Copy, hcl.Diagnostics)
}

// Copy is one instance of a block with for_each; Key is "" without.
type Copy struct {
	Key  string
	Eval Evaluator
}

// Meta are the arguments that any block with ForEach takes beside its own.
var Meta = []string{"when", "for_each"}

// Decode evaluates a body that Check has accepted. Unknown values are allowed and stay unknown. An attribute
// whose evaluation fails is unknown in the result, and its diagnostics say why.
func (b Block) Decode(body *hclsyntax.Body, labels []string, ev Evaluator) (Body, hcl.Diagnostics) {
	out := Body{Type: b.Type, Labels: labels, Written: body != nil, attrs: map[string]Value[cty.Value]{}, Blocks: map[string][]Body{}}
	if body == nil {
		body = &hclsyntax.Body{}
	}
	out.Range = body.SrcRange
	var diags hcl.Diagnostics
	if b.Free {
		out.Free = map[string]cty.Value{}
		for name, a := range body.Attributes {
			v, d := ev.Value(Spec{Name: name, Type: cty.DynamicPseudoType, Raw: true}, a.Expr)
			diags = append(diags, d...)
			out.Free[name] = v
		}
	}
	for _, f := range b.Fields {
		s := f.Spec()
		r := Value[cty.Value]{Cty: s.Default, Range: body.SrcRange}
		if a := body.Attributes[s.Name]; a != nil {
			v, d := b.value(s, a, ev)
			diags = append(diags, d...)
			r.Expr, r.Range = a.Expr, a.Expr.Range()
			r.item, r.origins = func(key string) hclsyntax.Expression { return ev.Item(a.Expr, key) }, ev.Origins
			if !v.IsKnown() || !v.IsNull() { // null means the default
				r.Cty = v
			}
		} else if s.Ref != nil {
			v, from, d := ev.Default(s, body.SrcRange)
			diags = append(diags, d...)
			r.Cty, r.origins = v, func(hclsyntax.Expression) []origin.Origin { return from }
		}
		out.attrs[s.Name] = r
	}
	for _, n := range b.Blocks {
		d := b.nested(n, body, ev, &out)
		diags = append(diags, d...)
	}
	return out, diags
}

func (b Block) nested(n Block, body *hclsyntax.Body, ev Evaluator, out *Body) (diags hcl.Diagnostics) {
	written := 0
	for _, x := range body.Blocks {
		if x.Type != n.Type {
			continue
		}
		written++
		copies := []Copy{{Eval: ev}}
		if n.ForEach {
			var d hcl.Diagnostics
			copies, d = ev.Expand(x.Body)
			diags = append(diags, d...)
		}
		for _, c := range copies {
			nb, d := n.Decode(x.Body, x.Labels, c.Eval)
			nb.Key, nb.Range = c.Key, x.DefRange()
			diags = append(diags, d...)
			out.Blocks[n.Type] = append(out.Blocks[n.Type], nb)
		}
	}
	if written == 0 && n.Always {
		nb, d := n.Decode(nil, nil, ev)
		nb.Range = out.Range
		diags = append(diags, d...)
		out.Blocks[n.Type] = append(out.Blocks[n.Type], nb)
	}
	return diags
}

func (b Block) value(s Spec, a *hclsyntax.Attribute, ev Evaluator) (cty.Value, hcl.Diagnostics) {
	v, diags := ev.Value(s, a.Expr)
	if diags.HasErrors() {
		return cty.UnknownVal(s.Type), diags
	}
	c, err := convert.Convert(v, s.Type)
	if err != nil {
		return cty.UnknownVal(s.Type), append(diags, origin.Error(origin.WrongType, a.Expr.Range(),
			"Wrong type for "+s.Name, "%s: %s is needed. Write it as the reference of block %q shows: prelet schema.", err, TypeName(s.Type), b.Type))
	}
	if !s.Raw && len(value.Secrets(c)) > 0 {
		return cty.UnknownVal(s.Type), append(diags, origin.Error(origin.Sensitive, a.Expr.Range(),
			"A secret cannot be used for "+s.Name, "This value is carried into the plan as it is, and everybody may read a plan. Secrets go into files (write) and the cluster's token only."))
	}
	if _, _, unread := value.Plain(c); len(unread) > 0 {
		diags = append(diags, origin.NotRead(a.Expr.Range(), b.Type+" "+s.Name, unread))
	}
	if err := s.check(c); err != nil {
		return cty.UnknownVal(s.Type), append(diags, origin.Error(origin.WrongType, a.Expr.Range(), "Wrong value for "+s.Name, "%s", err))
	}
	return c, diags
}
