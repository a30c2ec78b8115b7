package lang

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
)

const (
	maxExponent   = 2048 // binary
	numberSummary = "This number is too large"
	numberHelp    = "Numbers may have about 600 digits before and after the point."
)

// checkExpressions applies the rules for every expression of a file, and for labels.
func checkExpressions(body *hclsyntax.Body) (diags hcl.Diagnostics) {
	for _, a := range listAttributes(body) {
		diags = append(diags, checkExpression(a.Expr)...)
	}

	for _, x := range body.Blocks {
		for i, label := range x.Labels {
			diags = append(diags, checkLiteral(cty.StringVal(label), x.LabelRanges[i])...)
		}
		diags = append(diags, checkExpressions(x.Body)...)
	}

	return diags
}

func checkExpression(e hclsyntax.Expression) (diags hcl.Diagnostics) {
	if n := forNesting(e); n > maxFor {
		diags = append(diags, origin.Error(
			fault.Limit,
			e.Range(),
			"Loops are nested too deep",
			"A for is inside of %d others here; one is allowed, since each multiplies the work and an evaluation "+
				"cannot be stopped. Move the inner one into a local.",
			n-1,
		))
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
			return checkReadingCall(x)
		case *hclsyntax.ObjectConsExpr:
			return checkKeys(x)
		case *hclsyntax.BinaryOpExpr:
			warnOfNull(x)
			noteNull(x)
		}

		return nil
	})...)
}

// warnOfNull makes an && warn of a null operand that decides the result. HCL takes it as false, and refuses null in
// every other operator.
func warnOfNull(x *hclsyntax.BinaryOpExpr) {
	if x.Op != hclsyntax.OpLogicalAnd {
		return
	}

	and := *x.Op
	and.ShortCircuit = func(lhs, rhs cty.Value, left, right hcl.Diagnostics) (cty.Value, hcl.Diagnostics) {
		result, diags := hclsyntax.OpLogicalAnd.ShortCircuit(lhs, rhs, left, right)
		null, other := x.LHS, rhs
		if !lhs.IsNull() {
			null, other = x.RHS, lhs
		}
		isFalse := other.IsKnown() && !other.IsNull() && other.False()
		if result != cty.NilVal && (lhs.IsNull() || rhs.IsNull()) && !isFalse {
			diags = append(slices.Clip(diags), origin.Warning(
				fault.NullFact, null.Range(), "An operand of && is null",
				"It counts as false. Say so, as in coalesce(x, false), or compare it: x != null && x.",
			))
		}

		return result, diags
	}
	x.Op = &and
}

// noteNull makes == and != note an operand that is null where the other one is a value: the result is as for any other
// value, as if it was known. Evaluation keeps the note of a fact. Elements of loops are selected by such comparisons.
func noteNull(x *hclsyntax.BinaryOpExpr) {
	isEqual := x.Op == hclsyntax.OpEqual
	if !isEqual && x.Op != hclsyntax.OpNotEqual {
		return
	}

	compare := *x.Op
	compare.ShortCircuit = func(lhs, rhs cty.Value, left, right hcl.Diagnostics) (cty.Value, hcl.Diagnostics) {
		null, other := x.LHS, rhs
		if !lhs.IsNull() {
			null, other = x.RHS, lhs
		}
		reference, isReference := null.(*hclsyntax.ScopeTraversalExpr)
		isKept := isReference && slices.Contains([]string{"stage", "local"}, reference.Traversal.RootName())
		diags := append(slices.Clip(left), right...)
		if lhs.IsNull() == rhs.IsNull() || !isKept || !other.IsKnown() || diags.HasErrors() {
			return cty.NilVal, nil
		}
		note := origin.Note(fault.NullFact, null.Range(), "A fact that is null is compared", "")
		note.Expression = null

		return cty.BoolVal(!isEqual), append(diags, note)
	}
	x.Op = &compare
}

// checkTraversal checks the literals that are indexes: HCL does not visit them as expressions.
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
		if secret.HasPlaceholder(v.AsString()) {
			return hcl.Diagnostics{
				origin.Error(fault.Encoding, at, "A character that is reserved", placeholderHelp),
			}
		}
	case cty.Number:
		f := v.AsBigFloat() // 1e999999999 is twelve bytes here and a gigabyte as text
		exponent := f.MantExp(nil)
		if f.IsInf() || exponent > maxExponent || exponent < -maxExponent {
			return hcl.Diagnostics{origin.Error(fault.Limit, at, numberSummary, numberHelp)}
		}
	}

	return nil
}

// checkKeys refuses duplicate keys: HCL silently takes the last one.
func checkKeys(x *hclsyntax.ObjectConsExpr) (diags hcl.Diagnostics) {
	seen := map[string]hcl.Range{}

	for _, item := range x.Items {
		at := item.KeyExpr.Range()
		if isDivision(item.KeyExpr) {
			diags = append(diags, origin.Error(fault.Syntax, at, "A key with / in it needs quotes",
				"Put the whole key in quotes: \"example.com/name\" = …. "+
					"Write a computed key in parentheses: (a + b) = …."))
			continue
		}

		key, ok := value.LiteralText(item.KeyExpr)
		if !ok {
			continue
		}
		if first, ok := seen[key]; ok {
			diags = append(
				diags,
				origin.Error(fault.Duplicate, at, fmt.Sprintf("Duplicate key %q", key),
					duplicateHelp, origin.Place(first)),
			)
			continue
		}
		seen[key] = at
	}

	return diags
}

// isDivision reports whether a key such as example.com/a was parsed as a division.
func isDivision(e hclsyntax.Expression) bool {
	key, ok := e.(*hclsyntax.ObjectConsKeyExpr)
	if !ok || key.ForceNonLiteral {
		return false
	}
	_, ok = key.Wrapped.(*hclsyntax.BinaryOpExpr)

	return ok
}

// checkReadingCall restricts the arguments of functions that read to literals and variables, so that a loaded site
// shows everything that it reads.
func checkReadingCall(x *hclsyntax.FunctionCallExpr) (diags hcl.Diagnostics) {
	if !functions.ReadsMachine(x.Name) {
		return nil
	}

	for _, a := range x.Args {
		next := ""
		if name, isName := a.(*hclsyntax.ScopeTraversalExpr); isName && isUnquoted(name.Traversal) {
			next = fmt.Sprintf("A text is written in quotes: %s(%q). ", x.Name, name.Traversal.RootName())
		}
		if !isReadable(a) || x.ExpandFinal {
			diags = append(diags, origin.Error(
				fault.Reference,
				a.Range(),
				fmt.Sprintf("%s() takes text and variables only", x.Name),
				next+"Everything that a site reads must be known when it is loaded, so write a literal, var.NAME, or "+
					"a template of both. For a file whose name depends on more, use stage \"fetch-config\" \"NAME\" "+
					"{ file = … }.",
			))
		}
	}

	return diags
}

// isUnquoted reports whether a reference is one word that begins no reference, and so is probably a text.
func isUnquoted(name hcl.Traversal) bool {
	return len(name) == 1 && !slices.Contains([]string{"var", "local", "stage", "node", "each"}, name.RootName())
}

// isReadable reports whether an expression consists of literals and variables.
func isReadable(e hclsyntax.Expression) bool {
	return consistsOf(e, func(n hclsyntax.Node) bool {
		switch x := n.(type) {
		case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr,
			*hclsyntax.ParenthesesExpr:
			return true
		case *hclsyntax.ScopeTraversalExpr:
			return x.Traversal.RootName() == "var"
		}

		return false
	})
}

// isLiteral reports whether an expression has no reference, no function, and no operator but a sign.
func isLiteral(e hclsyntax.Expression) bool {
	return consistsOf(e, func(n hclsyntax.Node) bool {
		switch x := n.(type) {
		case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.ParenthesesExpr,
			*hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr:
			return true
		case *hclsyntax.UnaryOpExpr:
			return x.Op == hclsyntax.OpNegate
		}

		return false
	})
}

// consistsOf reports whether an expression has only nodes that are allowed.
func consistsOf(e hclsyntax.Expression, isAllowed func(hclsyntax.Node) bool) bool {
	isWhole := true
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics { // the callback returns none
		isWhole = isWhole && isAllowed(n)
		return nil
	})

	return isWhole
}

// quoteWord returns the next step for a word without quotes, before a space; "" for another expression.
func quoteWord(x hclsyntax.Expression) string {
	if word := hcl.ExprAsKeyword(x); word != "" {
		return fmt.Sprintf("A text is written in quotes: %q. ", word)
	}

	return ""
}

// CheckConstants checks that the arguments which the schema declares constant are literals.
func CheckConstants(b schema.Block, body *hclsyntax.Body) (diags hcl.Diagnostics) {
	for _, f := range b.Fields {
		s := f.Spec()
		a := body.Attributes[s.Name]
		isType := b.Type == schema.VariableBlock.Type && s.Name == schema.VariableType.Name

		if a != nil && s.Const && !isType && !isLiteral(a.Expr) {
			diags = append(
				diags,
				origin.Error(
					fault.Reference,
					a.Expr.Range(),
					s.Name+" must be a literal",
					quoteWord(a.Expr)+"It must be known before anything is evaluated: no references, no functions, no "+
						"templates.",
				),
			)
		}
	}

	for _, x := range body.Blocks {
		if n, ok := b.Find(x.Type); ok {
			diags = append(diags, CheckConstants(n, x.Body)...)
		}
	}

	return diags
}
