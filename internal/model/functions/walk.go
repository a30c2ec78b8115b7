package functions

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// children returns the expressions directly inside of e.
func children(e hclsyntax.Expression) []hclsyntax.Expression {
	var c childCollector
	_ = hclsyntax.Walk(e, &c) // the callbacks return no diagnostics

	return c.children
}

type childCollector struct {
	depth    int
	children []hclsyntax.Expression
}

func (c *childCollector) Enter(n hclsyntax.Node) hcl.Diagnostics {
	if x, ok := n.(hclsyntax.Expression); ok && c.depth == 1 {
		c.children = append(c.children, x)
	}
	c.depth++
	return nil
}

func (c *childCollector) Exit(hclsyntax.Node) hcl.Diagnostics {
	c.depth--
	return nil
}

// walkScopes calls visit for e and each expression inside of it, inner ones first, with the scope it is evaluated in:
// the body of a loop once for each element, or once with an unknown element. A filter is the key or the condition of
// a loop. Parts that cannot contain a secret are skipped: evaluating them once more at each level would take long.
func walkScopes(
	e hclsyntax.Expression,
	ctx *hcl.EvalContext,
	visit func(hclsyntax.Expression, *hcl.EvalContext, bool),
) {
	var walk func(e hclsyntax.Expression, ctx *hcl.EvalContext, isFilter bool)
	walk = func(e hclsyntax.Expression, ctx *hcl.EvalContext, isFilter bool) {
		_, isReference := e.(*hclsyntax.ScopeTraversalExpr)
		if e == nil || isReference && !isFilter { // a reference alone passes a value on, however large
			return
		}
		if !mayHoldSecret(e, ctx) {
			return
		}
		if loop, ok := e.(*hclsyntax.ForExpr); ok {
			walk(loop.CollExpr, ctx, false)
			for _, body := range loopScopes(loop, ctx) {
				walk(loop.KeyExpr, body, true)
				walk(loop.CondExpr, body, true)
				walk(loop.ValExpr, body, false)
			}
		} else {
			for _, child := range children(e) {
				walk(child, ctx, false)
			}
		}
		visit(e, ctx, isFilter)
	}
	walk(e, ctx, false)
}

// loopScopes returns the scopes of the body of a loop. The body of a loop without elements, or over a collection that
// HCL refuses, is checked with an unknown element: the next machine may have one.
func loopScopes(loop *hclsyntax.ForExpr, outer *hcl.EvalContext) []*hcl.EvalContext {
	collection, _ := loop.CollExpr.Value(outer) // evaluation reports its errors
	collection, marks := collection.Unmark()

	var scopes []*hcl.EvalContext
	add := func(key, element cty.Value) {
		scope := outer.NewChild()
		scope.Variables = map[string]cty.Value{loop.ValVar: element.WithMarks(marks)}
		if loop.KeyVar != "" {
			scope.Variables[loop.KeyVar] = key.WithMarks(marks) // the key of a set's element is the element
		}
		scopes = append(scopes, scope)
	}
	if collection.CanIterateElements() {
		for it := collection.ElementIterator(); it.Next(); {
			add(it.Element())
		}
	}
	if len(scopes) == 0 {
		add(cty.DynamicVal, cty.DynamicVal)
	}

	return scopes
}
