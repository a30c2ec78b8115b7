package site

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// checkExpressions applies what holds for every expression of a file, and for labels.
func checkExpressions(body *hclsyntax.Body) (diags hcl.Diagnostics) {
	for _, a := range attributes(body) {
		diags = append(diags, checkExpression(a.Expr)...)
	}
	for _, x := range body.Blocks {
		for i, label := range x.Labels {
			if value.HasPlaceholder(label) {
				diags = append(diags, origin.Error(fault.Encoding, x.LabelRanges[i], "A character that is reserved", placeholderHelp))
			}
		}
		diags = append(diags, checkExpressions(x.Body)...)
	}
	return diags
}

func checkExpression(e hclsyntax.Expression) (diags hcl.Diagnostics) {
	if n := value.ForDepth(e); n > maxFor {
		diags = append(diags, origin.Error(fault.Limit, e.Range(), "Loops are nested too deep",
			"Here a for stands in %d others; two nested ones are allowed, since each multiplies the work and nothing can stop an evaluation. Put the inner one into a local.", n-1))
	}
	return append(diags, hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		switch x := n.(type) {
		case *hclsyntax.LiteralValueExpr:
			return checkLiteral(x.Val, x.SrcRange)
		case *hclsyntax.ScopeTraversalExpr:
			return checkTraversal(x.Traversal)
		case *hclsyntax.RelativeTraversalExpr:
			return checkTraversal(x.Traversal)
		case *hclsyntax.FunctionCallExpr:
			return checkReading(x)
		case *hclsyntax.ObjectConsExpr:
			return checkKeys(x)
		}
		return nil
	})...)
}

// checkTraversal looks at the literals that stand as an index behind a name: HCL keeps them apart from other literals.
func checkTraversal(tr hcl.Traversal) (diags hcl.Diagnostics) {
	for _, step := range tr {
		if i, ok := step.(hcl.TraverseIndex); ok {
			diags = append(diags, checkLiteral(i.Key, i.SrcRange)...)
		}
	}
	return diags
}

func checkLiteral(v cty.Value, at hcl.Range) hcl.Diagnostics {
	if v.IsNull() || !v.IsKnown() {
		return nil
	}
	switch v.Type() {
	case cty.String:
		if value.HasPlaceholder(v.AsString()) {
			return hcl.Diagnostics{origin.Error(fault.Encoding, at, "A character that is reserved", placeholderHelp)}
		}
	case cty.Number:
		// 1e999999999 is twelve bytes here and a gigabyte as text.
		if f := v.AsBigFloat(); f.IsInf() || f.MantExp(nil) > maxExponent || f.MantExp(nil) < -maxExponent {
			return hcl.Diagnostics{origin.Error(fault.Limit, at, numberSummary, numberHelp)}
		}
	}
	return nil
}

// checkKeys refuses a key that stands twice: HCL takes the last one without a word.
func checkKeys(x *hclsyntax.ObjectConsExpr) (diags hcl.Diagnostics) {
	seen := map[string]hcl.Range{}
	for _, i := range x.Items {
		if k, ok := i.KeyExpr.(*hclsyntax.ObjectConsKeyExpr); ok && !k.ForceNonLiteral {
			if _, ok := k.Wrapped.(*hclsyntax.BinaryOpExpr); ok { // example.com/a is a division
				diags = append(diags, origin.Error(fault.Syntax, k.Range(), "A key with / in it needs quotes",
					"Put the whole key in quotes: \"example.com/name\" = …. What is computed is written in parentheses: (a + b) = …."))
				continue
			}
		}
		if !literalKey(i.KeyExpr) {
			continue
		}
		k, d := i.KeyExpr.Value(nil)
		if d.HasErrors() || k.IsNull() || k.Type() != cty.String {
			continue
		}
		at := i.KeyExpr.Range()
		if first, ok := seen[k.AsString()]; ok {
			diags = append(diags, origin.Error(fault.Duplicate, at, fmt.Sprintf("Key %q is there twice", k.AsString()), "The first is at %s. Remove one of them.", place(first)))
			continue
		}
		seen[k.AsString()] = at
	}
	return diags
}

const (
	maxExponent   = 2048 // of two
	numberSummary = "This number is too large"
	numberHelp    = "Numbers have at most about 600 digits before and behind the point."
)

// checkReading holds the functions that read to literals and variables, so that all that a site reads is known once
// it is loaded.
func checkReading(x *hclsyntax.FunctionCallExpr) (diags hcl.Diagnostics) {
	switch x.Name {
	case "file", "fileexists", "credential":
	default:
		return nil
	}
	for _, a := range x.Args {
		if !readable(a) || x.ExpandFinal {
			diags = append(diags, origin.Error(fault.Reference, a.Range(), fmt.Sprintf("%s() takes text and variables only", x.Name),
				"What a site reads must be known when it is loaded, so its argument is a literal, var.NAME, or a template of both. A file whose name depends on more comes in by stage \"fetch-config\" \"NAME\" { file = … }."))
		}
	}
	return diags
}

func readable(e hclsyntax.Expression) bool {
	switch x := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return true
	case *hclsyntax.TemplateExpr:
		for _, p := range x.Parts {
			if !readable(p) {
				return false
			}
		}
		return true
	case *hclsyntax.TemplateWrapExpr:
		return readable(x.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return readable(x.Expression)
	case *hclsyntax.ScopeTraversalExpr:
		return x.Traversal.RootName() == "var"
	}
	return false
}

// literal says whether an expression is a value as it stands: no reference, no function, no operator but a sign.
func literal(e hclsyntax.Expression) bool {
	switch x := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return true
	case *hclsyntax.TemplateExpr:
		for _, p := range x.Parts {
			if _, ok := p.(*hclsyntax.LiteralValueExpr); !ok {
				return false
			}
		}
		return true
	case *hclsyntax.ParenthesesExpr:
		return literal(x.Expression)
	case *hclsyntax.UnaryOpExpr:
		n, ok := x.Val.(*hclsyntax.LiteralValueExpr)
		return ok && x.Op == hclsyntax.OpNegate && n.Val.Type() == cty.Number
	case *hclsyntax.TupleConsExpr:
		for _, i := range x.Exprs {
			if !literal(i) {
				return false
			}
		}
		return true
	case *hclsyntax.ObjectConsExpr:
		for _, i := range x.Items {
			if !literalKey(i.KeyExpr) || !literal(i.ValueExpr) {
				return false
			}
		}
		return true
	}
	return false
}

func literalKey(e hclsyntax.Expression) bool {
	k, ok := e.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return literal(e)
	}
	return !k.ForceNonLiteral && hcl.ExprAsKeyword(k.Wrapped) != "" || literal(k.Wrapped)
}

// constants checks that the arguments declared so are literals.
func constants(b schema.Block, body *hclsyntax.Body) (diags hcl.Diagnostics) {
	for _, f := range b.Fields {
		s := f.Spec()
		a := body.Attributes[s.Name]
		if a == nil || !s.Const || b.Type == schema.VariableBlock.Type && s.Name == schema.VariableType.Name {
			continue
		}
		if !literal(a.Expr) {
			diags = append(diags, origin.Error(fault.Reference, a.Expr.Range(), s.Name+" is a literal",
				"It must be known before anything is evaluated: no references, no functions, no templates. Write the value itself."))
		}
	}
	for _, x := range body.Blocks {
		if n, ok := b.Find(x.Type); ok {
			diags = append(diags, constants(n, x.Body)...)
		}
	}
	return diags
}

// prepare makes every expression of the site ready for evaluation, each once.
func (l *loader) prepare() {
	s := l.site
	for _, b := range []*hclsyntax.Body{s.Prelet, s.Cluster, s.Node} {
		prepareBody(b)
	}
	for _, d := range s.Detectors {
		prepareBody(d.Body)
	}
	for _, i := range s.Stages {
		prepareBody(i.Body)
		i.When, i.ForEach, i.Timeout = value.Prepare(i.When), value.Prepare(i.ForEach), value.Prepare(i.Timeout)
	}
	for _, x := range s.Locals {
		x.Expr = value.Prepare(x.Expr)
	}
	for _, v := range s.Variables {
		v.Default = value.Prepare(v.Default)
		for i := range v.Rules {
			v.Rules[i].Condition = value.Prepare(v.Rules[i].Condition)
		}
	}
	for n, v := range s.Values {
		s.Values[n] = FileValue{Expr: value.Prepare(v.Expr)}
	}
}

func prepareBody(b *hclsyntax.Body) {
	if b == nil {
		return
	}
	for _, a := range b.Attributes {
		a.Expr = value.Prepare(a.Expr)
	}
	for _, x := range b.Blocks {
		prepareBody(x.Body)
	}
}
