package value

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// keeper evaluates a node that in HCL forgets marks, and with a for also types, as soon as a part of it is unknown.
// Each part is evaluated once: a copy of the node has the parts replaced by ones that remember what they were.
type keeper struct{ wrapper }

// capture is a part of a node that remembers its values.
type capture struct {
	wrapper
	seen *[]cty.Value
}

func (c capture) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, d := c.inner().Value(ctx)
	*c.seen = append(*c.seen, v)
	return v, d
}

func (k keeper) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	var seen []cty.Value
	part := func(e hclsyntax.Expression) hclsyntax.Expression {
		if e == nil {
			return nil
		}
		return capture{wrap(e), &seen}
	}
	var v cty.Value
	var diags hcl.Diagnostics
	switch x := k.inner().(type) {
	case *hclsyntax.ObjectConsExpr:
		c := *x
		c.Items = make([]hclsyntax.ObjectConsItem, len(x.Items))
		for i, it := range x.Items {
			c.Items[i] = hclsyntax.ObjectConsItem{KeyExpr: part(it.KeyExpr), ValueExpr: part(it.ValueExpr)}
		}
		v, diags = c.Value(ctx)
	case *hclsyntax.ConditionalExpr:
		c := *x
		c.Condition, c.TrueResult, c.FalseResult = part(x.Condition), part(x.TrueResult), part(x.FalseResult)
		v, diags = c.Value(ctx)
	case *hclsyntax.FunctionCallExpr:
		c := *x
		c.Args = make([]hclsyntax.Expression, len(x.Args))
		for i, a := range x.Args {
			c.Args[i] = part(a)
		}
		v, diags = c.Value(ctx)
		if len(seen) == 1 { // HCL looked at what it could not expand, and at nothing else
			for _, a := range x.Args[:len(x.Args)-1] {
				other, _ := a.Value(ctx)
				seen = append(seen, other)
			}
		}
	case *hclsyntax.IndexExpr:
		c := *x
		c.Key = part(x.Key) // of the collection only its own marks belong to the element, and HCL keeps these
		v, diags = c.Value(ctx)
	case *hclsyntax.UnaryOpExpr:
		c := *x
		c.Val = part(x.Val)
		v, diags = c.Value(ctx)
	case *hclsyntax.TemplateJoinExpr:
		return joinTemplate(ctx, x)
	case *hclsyntax.ForExpr:
		return typedFor(ctx, x)
	default:
		return x.Value(ctx)
	}
	if v.IsKnown() || diags.HasErrors() {
		return v, diags
	}
	return withDeepMarks(v, seen), diags
}

func withDeepMarks(v cty.Value, from []cty.Value) cty.Value {
	for _, s := range from {
		if m := deepMarks(s); len(m) > 0 {
			v = v.WithMarks(m)
		}
	}
	return v
}

// joinTemplate is %{for}. HCL panics when the sequence is no tuple, so the loop below it stays HCL's own; its body is
// checked all the same when the loop has nothing to loop over yet.
func joinTemplate(ctx *hcl.EvalContext, x *hclsyntax.TemplateJoinExpr) (cty.Value, hcl.Diagnostics) {
	f, ok := x.Tuple.(*hclsyntax.ForExpr)
	if !ok {
		return x.Value(ctx)
	}
	seq, diags := typedFor(ctx, f)
	if !seq.IsKnown() || !seq.Type().IsTupleType() {
		return withDeepMarks(cty.UnknownVal(cty.String), []cty.Value{seq}), diags
	}
	join := &hclsyntax.TemplateJoinExpr{Tuple: &hclsyntax.LiteralValueExpr{Val: seq, SrcRange: f.SrcRange}}
	v, d := join.Value(ctx)
	if !v.IsKnown() {
		v = withDeepMarks(v, []cty.Value{seq})
	}
	return v, append(diags, d...)
}

// typedFor is a for that keeps its type when it cannot run yet: the collection is unknown, or a condition or a key
// is. Its body is then evaluated once with an unknown element, which finds misspelt attributes, and the result is an
// unknown list of what the body gives (a map of it with a key, of lists with "...").
func typedFor(ctx *hcl.EvalContext, x *hclsyntax.ForExpr) (cty.Value, hcl.Diagnostics) {
	var colls, bodies []cty.Value
	c := *x
	c.CollExpr = capture{wrap(x.CollExpr), &colls}
	c.ValExpr = capture{wrap(x.ValExpr), &bodies}
	if x.KeyExpr != nil {
		c.KeyExpr = capture{wrap(x.KeyExpr), &bodies}
	}
	if x.CondExpr != nil {
		c.CondExpr = capture{wrap(x.CondExpr), &bodies}
	}
	v, diags := c.Value(ctx)
	if diags.HasErrors() || v.IsKnown() || len(colls) == 0 {
		return v, diags
	}
	coll, collMarks := colls[0].Unmark()
	v = withDeepMarks(v.WithMarks(collMarks), bodies)
	t := coll.Type()
	if !t.IsCollectionType() {
		return v, diags
	}
	var vals []cty.Value
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{x.ValVar: unknownElement(t)}
	if x.KeyVar != "" {
		child.Variables[x.KeyVar] = unknownKey(t)
	}
	for _, e := range []hclsyntax.Expression{x.KeyExpr, x.CondExpr, x.ValExpr} {
		if e != nil {
			b, d := e.Value(child)
			diags = append(diags, d...)
			vals = append(vals, b)
		}
	}
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v = withDeepMarks(v, vals)
	et := vals[len(vals)-1].Type()
	if x.Group {
		et = cty.List(et)
	}
	rt := cty.List(et)
	if x.KeyExpr != nil {
		rt = cty.Map(et)
	}
	if et.HasDynamicTypes() {
		return v, diags
	}
	return cty.UnknownVal(rt).RefineNotNull().WithMarks(v.Marks()), diags
}

// unknownElement and unknownKey are what a loop over a collection of type t binds.
func unknownElement(t cty.Type) cty.Value { return UnknownOutput(t.ElementType()) }

func unknownKey(t cty.Type) cty.Value {
	switch {
	case t.IsMapType():
		return cty.UnknownVal(cty.String)
	case t.IsSetType(): // the key of an element of a set is the element
		return unknownElement(t)
	}
	return cty.UnknownVal(cty.Number)
}
