package value

import "github.com/hashicorp/hcl/v2/hclsyntax"

// ForDepth is how deep for expressions stand inside of the bodies of others, template loops included. The collection
// that a for iterates over is computed once and counts beside, not inside.
func ForDepth(e hclsyntax.Expression) int {
	deepest := 0
	for _, c := range children(e) {
		d := ForDepth(c.expr)
		if c.repeated {
			d++
		}
		deepest = max(deepest, d)
	}
	return deepest
}

type child struct {
	expr     hclsyntax.Expression
	repeated bool // evaluated once for each element
}

// children are the expressions directly inside of e.
func children(e hclsyntax.Expression) []child {
	var out []child
	add := func(es ...hclsyntax.Expression) {
		for _, c := range es {
			if c != nil {
				out = append(out, child{expr: c})
			}
		}
	}
	switch x := e.(type) {
	case wrapped:
		add(x.inner())
	case *hclsyntax.ParenthesesExpr:
		add(x.Expression)
	case *hclsyntax.FunctionCallExpr:
		add(x.Args...)
	case *hclsyntax.ObjectConsExpr:
		for _, it := range x.Items {
			add(it.KeyExpr, it.ValueExpr)
		}
	case *hclsyntax.ObjectConsKeyExpr:
		add(x.Wrapped)
	case *hclsyntax.TupleConsExpr:
		add(x.Exprs...)
	case *hclsyntax.TemplateExpr:
		add(x.Parts...)
	case *hclsyntax.TemplateWrapExpr:
		add(x.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		add(x.Tuple)
	case *hclsyntax.ConditionalExpr:
		add(x.Condition, x.TrueResult, x.FalseResult)
	case *hclsyntax.BinaryOpExpr:
		add(x.LHS, x.RHS)
	case *hclsyntax.UnaryOpExpr:
		add(x.Val)
	case *hclsyntax.IndexExpr:
		add(x.Collection, x.Key)
	case *hclsyntax.RelativeTraversalExpr:
		add(x.Source)
	case *hclsyntax.SplatExpr:
		add(x.Source, x.Each)
	case *hclsyntax.ForExpr:
		add(x.CollExpr)
		for _, b := range []hclsyntax.Expression{x.KeyExpr, x.ValExpr, x.CondExpr} {
			if b != nil {
				out = append(out, child{expr: b, repeated: true})
			}
		}
	}
	return out
}
