package value

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// CheckLiterals refuses what the text of an expression must not spell out: the characters of placeholders, which an
// escape (\ue000) can bring in where the file has none, and numbers out of range, whose decimal form would be
// megabytes long.
func CheckLiterals(e hclsyntax.Expression) hcl.Diagnostics {
	return hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.LiteralValueExpr:
			return checkLiteral(n.Val, n.SrcRange)
		case *hclsyntax.ScopeTraversalExpr:
			return checkTraversal(n.Traversal)
		case *hclsyntax.RelativeTraversalExpr:
			return checkTraversal(n.Traversal)
		}
		return nil
	})
}

func checkTraversal(tr hcl.Traversal) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, step := range tr {
		if i, ok := step.(hcl.TraverseIndex); ok {
			diags = append(diags, checkLiteral(i.Key, i.SrcRange)...)
		}
	}
	return diags
}

func checkLiteral(v cty.Value, rng hcl.Range) hcl.Diagnostics {
	detail := ""
	switch {
	case v.IsNull() || !v.IsKnown():
	case v.Type() == cty.String && HasPlaceholder(v.AsString()):
		detail = "The characters U+E000 and U+E001 stand for credentials inside of prelet. Write credential(\"NAME\") for one."
	case v.Type() == cty.Number:
		if _, err := goNumber(v.AsBigFloat(), nil); err != nil {
			detail = fmt.Sprintf("Numbers go up to 1e%d.", maxExponent)
		}
	}
	if detail == "" {
		return nil
	}
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Not allowed in a site", Detail: detail, Subject: rng.Ptr()}}
}

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
