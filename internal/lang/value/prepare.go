package value

import (
	"fmt"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// wrapper stands around a node. HCL closes its Node interface, so a node of our own embeds one of HCL's: walks pass
// through to the node inside, which they visit too.
type wrapper struct{ *hclsyntax.ParenthesesExpr }

func wrap(e hclsyntax.Expression) wrapper {
	return wrapper{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}}
}

// UnwrapExpression lets hcl.ExprMap, hcl.ExprList, hcl.ExprCall and hcl.AbsTraversalForExpr see the node inside.
func (w wrapper) UnwrapExpression() hcl.Expression { return w.ParenthesesExpr.Expression }

func (w wrapper) inner() hclsyntax.Expression { return w.ParenthesesExpr.Expression }

type wrapped interface{ inner() hclsyntax.Expression }

// Unwrap is the node inside of the wrappers that Prepare puts around it, and inside of parentheses.
func Unwrap(e hclsyntax.Expression) hclsyntax.Expression {
	for {
		switch x := e.(type) {
		case wrapped:
			e = x.inner()
		case *hclsyntax.ParenthesesExpr:
			e = x.Expression
		default:
			return e
		}
	}
}

// Prepare rewrites e, in place where it can, and returns the expression to evaluate instead:
//
//   - operands of operators, conditions, keys and indexes refuse secrets;
//   - && refuses null, as all other operators do;
//   - / and % refuse zero as the divisor;
//   - a for over an unknown keeps its type, and its body is checked once with an unknown element;
//   - nodes where HCL drops marks when a part is unknown keep them.
//
// Preparing twice is preparing once. Literals stay as they are.
func Prepare(e hclsyntax.Expression) hclsyntax.Expression {
	switch x := e.(type) {
	case nil:
		return nil
	case wrapped:
		return e // prepared before, with all below it
	case *hclsyntax.ParenthesesExpr:
		x.Expression = Prepare(x.Expression)
	case *hclsyntax.FunctionCallExpr:
		for i := range x.Args {
			x.Args[i] = Prepare(x.Args[i])
		}
		if x.ExpandFinal {
			return keeper{wrap(x)}
		}
	case *hclsyntax.ObjectConsExpr:
		for i := range x.Items {
			x.Items[i].ValueExpr = Prepare(x.Items[i].ValueExpr)
			prepareKey(x.Items[i].KeyExpr)
		}
		return keeper{wrap(x)}
	case *hclsyntax.TupleConsExpr:
		for i := range x.Exprs {
			x.Exprs[i] = Prepare(x.Exprs[i])
		}
	case *hclsyntax.TemplateExpr:
		for i := range x.Parts {
			x.Parts[i] = Prepare(x.Parts[i])
		}
	case *hclsyntax.TemplateWrapExpr:
		x.Wrapped = Prepare(x.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		if f, ok := x.Tuple.(*hclsyntax.ForExpr); ok {
			prepareFor(f)
		}
		return keeper{wrap(x)}
	case *hclsyntax.ConditionalExpr:
		x.Condition = guarded(x.Condition, "a condition")
		x.TrueResult, x.FalseResult = Prepare(x.TrueResult), Prepare(x.FalseResult)
		return keeper{wrap(x)}
	case *hclsyntax.BinaryOpExpr:
		x.LHS, x.RHS = guarded(x.LHS, "an operator"), guarded(x.RHS, "an operator")
		switch x.Op {
		case hclsyntax.OpLogicalAnd:
			x.Op = logicalAnd()
		case hclsyntax.OpDivide:
			x.Op = divide(stdlib.DivideFunc)
		case hclsyntax.OpModulo:
			x.Op = divide(stdlib.ModuloFunc)
		}
	case *hclsyntax.UnaryOpExpr:
		x.Val = guarded(x.Val, "an operator")
		return keeper{wrap(x)}
	case *hclsyntax.IndexExpr:
		x.Collection, x.Key = Prepare(x.Collection), guarded(x.Key, "an index")
		return keeper{wrap(x)}
	case *hclsyntax.RelativeTraversalExpr:
		x.Source = Prepare(x.Source)
	case *hclsyntax.SplatExpr:
		x.Source, x.Each = Prepare(x.Source), Prepare(x.Each)
	case *hclsyntax.ForExpr:
		prepareFor(x)
		return keeper{wrap(x)}
	}
	return e
}

// logicalAnd is HCL's && for which null is not false. HCL's own (v2.25.0) asks cty whether an operand is false, and of
// null that is true. False decides all the same, whatever the other operand is.
var logicalAnd = sync.OnceValue(func() *hclsyntax.Operation {
	and := *hclsyntax.OpLogicalAnd
	isNull := func(v cty.Value) bool { return v.IsKnown() && v.IsNull() }
	and.ShortCircuit = func(lhs, rhs cty.Value, ofLHS, ofRHS hcl.Diagnostics) (cty.Value, hcl.Diagnostics) {
		if !isNull(lhs) && !isNull(rhs) {
			return hclsyntax.OpLogicalAnd.ShortCircuit(lhs, rhs, ofLHS, ofRHS)
		}
		v, diags := hclsyntax.OpLogicalAnd.ShortCircuit(nullsToUnknown(lhs), nullsToUnknown(rhs), ofLHS, ofRHS)
		if !v.IsKnown() && lhs.IsKnown() && rhs.IsKnown() {
			return cty.NilVal, nil // the function below refuses null
		}

		return v, diags
	}

	return &and
})

func prepareFor(x *hclsyntax.ForExpr) {
	x.CollExpr, x.ValExpr = Prepare(x.CollExpr), Prepare(x.ValExpr)
	x.KeyExpr = guarded(x.KeyExpr, "a key")
	x.CondExpr = guarded(x.CondExpr, "a condition")
}

// prepareKey guards the key of an item of an object. A bare name is the key itself, and a bare a.b is an error that
// HCL reports: both stay.
func prepareKey(e hclsyntax.Expression) {
	k, ok := e.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return
	}
	if _, bare := k.Wrapped.(*hclsyntax.ScopeTraversalExpr); bare && !k.ForceNonLiteral || !k.ForceNonLiteral && hcl.ExprAsKeyword(k.Wrapped) != "" {
		return
	}
	k.Wrapped = guarded(k.Wrapped, "a key")
}

// guard is an operand whose value must not be a secret, because its content decides.
type guard struct {
	wrapper
	what string
}

func guarded(e hclsyntax.Expression, what string) hclsyntax.Expression {
	switch e.(type) {
	case nil:
		return nil
	case guard, *hclsyntax.LiteralValueExpr:
		return e
	}
	return guard{wrap(Prepare(e)), what}
}

// sensitiveExtra marks a diagnostic that try must not catch.
type sensitiveExtra struct{}

func (g guard) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := g.inner().Value(ctx)
	s := Secrets(v)
	if len(s) == 0 {
		return v, diags
	}
	return cty.DynamicVal, append(diags, &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  "Depends on the content of a secret",
		Detail: fmt.Sprintf("Credential %s flows in here, and %s would look into it. A secret can only be put into text and encoded; whether it exists can be asked with can(credential(…)).",
			quoteNames(s), g.what),
		Subject:     g.Range().Ptr(),
		Expression:  g,
		EvalContext: ctx,
		Extra:       sensitiveExtra{},
	})
}
