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

// Value implements hcl.Expression. A known value is HCL's own; an unknown one gets the marks of its parts.
func (k keeper) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	switch x := k.inner().(type) {
	case *hclsyntax.TemplateJoinExpr:
		return joinTemplate(ctx, x)
	case *hclsyntax.ForExpr:
		return typedFor(ctx, x)
	}

	var seen []cty.Value
	v, diags := captureParts(k.inner(), &seen).Value(ctx)
	if x, ok := k.inner().(*hclsyntax.ObjectConsExpr); ok {
		pointAtNullKey(x, diags)
	}
	if v.IsKnown() || diags.HasErrors() {
		return v, diags
	}
	if call, ok := k.inner().(*hclsyntax.FunctionCallExpr); ok && len(seen) == 1 {
		seen = append(seen, otherArguments(ctx, call)...)
	}

	return withDeepMarks(v, seen), diags
}

// pointAtNullKey moves HCL's error about a key that is null from the value of its item to the key.
func pointAtNullKey(x *hclsyntax.ObjectConsExpr, diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Summary != "Null value as key" || d.Subject == nil {
			continue
		}
		for _, item := range x.Items {
			if item.ValueExpr.Range() == *d.Subject {
				d.Subject = item.KeyExpr.Range().Ptr()
				break
			}
		}
	}
}

// captureParts returns a copy of a node whose parts remember their values in seen; the node itself if it is of a kind
// that needs no keeper. A part that is nil stays nil.
func captureParts(e hclsyntax.Expression, seen *[]cty.Value) hclsyntax.Expression {
	part := func(e hclsyntax.Expression) hclsyntax.Expression {
		if e == nil {
			return nil
		}
		return capture{wrap(e), seen}
	}

	switch x := e.(type) {
	case *hclsyntax.ObjectConsExpr:
		c := *x
		c.Items = make([]hclsyntax.ObjectConsItem, len(x.Items))
		for i, item := range x.Items {
			c.Items[i] = hclsyntax.ObjectConsItem{KeyExpr: part(item.KeyExpr), ValueExpr: part(item.ValueExpr)}
		}
		return &c
	case *hclsyntax.ConditionalExpr:
		c := *x
		c.Condition, c.TrueResult, c.FalseResult = part(x.Condition), part(x.TrueResult), part(x.FalseResult)
		return &c
	case *hclsyntax.FunctionCallExpr:
		c := *x
		c.Args = make([]hclsyntax.Expression, len(x.Args))
		for i, a := range x.Args {
			c.Args[i] = part(a)
		}
		return &c
	case *hclsyntax.IndexExpr:
		c := *x
		c.Key = part(x.Key) // of the collection only its own marks belong to the element, and HCL keeps these
		return &c
	case *hclsyntax.UnaryOpExpr:
		c := *x
		c.Val = part(x.Val)
		return &c
	}

	return e
}

// otherArguments returns the values of all arguments but the last. HCL does not evaluate them in a call that ends with
// "..." while the last one cannot be expanded yet.
func otherArguments(ctx *hcl.EvalContext, call *hclsyntax.FunctionCallExpr) (out []cty.Value) {
	for _, a := range call.Args[:len(call.Args)-1] {
		v, _ := a.Value(ctx)
		out = append(out, v)
	}

	return out
}

// withDeepMarks adds to a value all marks of others, also those inside of them.
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
	v, diags := captureFor(x, &colls, &bodies).Value(ctx)
	if diags.HasErrors() || v.IsKnown() || len(colls) == 0 {
		return v, diags
	}

	coll, collMarks := colls[0].Unmark()
	v = withDeepMarks(v.WithMarks(collMarks), bodies)
	if !coll.Type().IsCollectionType() {
		return v, diags
	}

	vals, more := evalBody(ctx, x, coll.Type())
	diags = append(diags, more...)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v = withDeepMarks(v, vals)
	result := vals[len(vals)-1].Type()
	if x.Group {
		result = cty.List(result)
	}
	if result.HasDynamicTypes() {
		return v, diags
	}
	t := cty.List(result)
	if x.KeyExpr != nil {
		t = cty.Map(result)
	}

	return cty.UnknownVal(t).RefineNotNull().WithMarks(v.Marks()), diags
}

// captureFor returns a copy of a for whose collection and whose body remember their values.
func captureFor(x *hclsyntax.ForExpr, colls, bodies *[]cty.Value) *hclsyntax.ForExpr {
	c := *x
	c.CollExpr = capture{wrap(x.CollExpr), colls}
	c.ValExpr = capture{wrap(x.ValExpr), bodies}
	if x.KeyExpr != nil {
		c.KeyExpr = capture{wrap(x.KeyExpr), bodies}
	}
	if x.CondExpr != nil {
		c.CondExpr = capture{wrap(x.CondExpr), bodies}
	}

	return &c
}

// evalBody evaluates the body of a for once, with an unknown element of a collection of type t. The last of the values is
// that of the body's value; those before are of its key and its condition.
func evalBody(ctx *hcl.EvalContext, x *hclsyntax.ForExpr, t cty.Type) (vals []cty.Value, diags hcl.Diagnostics) {
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{x.ValVar: unknownElement(t)}
	if x.KeyVar != "" {
		child.Variables[x.KeyVar] = unknownKey(t)
	}
	for _, e := range []hclsyntax.Expression{x.KeyExpr, x.CondExpr, x.ValExpr} {
		if e != nil {
			v, d := e.Value(child)
			diags = append(diags, d...)
			vals = append(vals, v)
		}
	}

	return vals, diags
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
