package value

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// SensitiveError reports whether one of the diagnostics refuses to look into a secret. try does not catch these, and
// can does not answer.
func SensitiveError(diags hcl.Diagnostics) bool {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if _, ok := d.Extra.(sensitiveExtra); ok {
			return true
		}
		var s *secretError
		if errors.As(callError(d), &s) {
			return true
		}
	}
	return false
}

// callError is what the function returned whose call a diagnostic is about, or nil.
func callError(d *hcl.Diagnostic) error {
	if x, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok {
		return x.FunctionCallError()
	}
	return nil
}

// NullCause reports whether an evaluation error came from a null: an operand of the failing node itself is null, or,
// for a call, an argument holds one and the call would have gone through with an unknown in its place. The
// diagnostic must have its Expression and EvalContext, as HCL's have.
func NullCause(d *hcl.Diagnostic) bool {
	if d == nil || d.Severity != hcl.DiagError {
		return false
	}
	var arms *armsError
	var null *nullError
	switch err := callError(d); {
	case errors.As(err, &null):
		return true
	case errors.As(err, &arms): // each arm of a try failed: any of them that failed of a null may work elsewhere
		for _, a := range arms.diags {
			if NullCause(a) {
				return true
			}
		}
		return false
	}
	e, ok := d.Expression.(hclsyntax.Expression)
	if !ok || d.EvalContext == nil {
		return false
	}
	isNull := func(x hclsyntax.Expression) bool {
		if x == nil {
			return false
		}
		v, diags := x.Value(d.EvalContext)
		return !diags.HasErrors() && v.IsKnown() && v.IsNull()
	}
	if isNull(e) {
		return true
	}
	switch e := Unwrap(e).(type) {
	case *hclsyntax.BinaryOpExpr:
		return isNull(e.LHS) || isNull(e.RHS)
	case *hclsyntax.UnaryOpExpr:
		return isNull(e.Val)
	case *hclsyntax.ConditionalExpr:
		return isNull(e.Condition)
	case *hclsyntax.IndexExpr:
		return isNull(e.Collection) || isNull(e.Key)
	case *hclsyntax.RelativeTraversalExpr:
		src, diags := e.Source.Value(d.EvalContext)
		return !diags.HasErrors() && nullOnTheWay(src, e.Traversal)
	case *hclsyntax.ScopeTraversalExpr:
		if len(e.Traversal) == 0 || e.Traversal.IsRelative() {
			return false
		}
		root, diags := e.Traversal[:1].TraverseAbs(d.EvalContext)
		return !diags.HasErrors() && nullOnTheWay(root, e.Traversal[1:])
	case *hclsyntax.ForExpr:
		return isNull(e.CollExpr)
	case *hclsyntax.TemplateJoinExpr:
		seq, diags := e.Tuple.Value(d.EvalContext)
		return !diags.HasErrors() && holdsNull(seq)
	}
	return false
}

// nullOnTheWay reports whether a traversal from v meets a null before its last step.
func nullOnTheWay(v cty.Value, steps hcl.Traversal) bool {
	for i := range steps {
		if v.IsKnown() && v.IsNull() {
			return true
		}
		next, diags := steps[i : i+1].TraverseRel(v)
		if diags.HasErrors() {
			return false
		}
		v = next
	}
	return false
}

// holdsNull reports whether v is null or has one inside.
func holdsNull(v cty.Value) bool {
	found := false
	u, _ := v.UnmarkDeep()
	_ = cty.Walk(u, func(_ cty.Path, v cty.Value) (bool, error) {
		found = found || v.IsKnown() && v.IsNull()
		return !found, nil
	})
	return found
}

// nullsToUnknown asks what would be without nulls.
func nullsToUnknown(v cty.Value) cty.Value {
	u, _ := v.UnmarkDeep()
	out, err := cty.Transform(u, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.IsKnown() && v.IsNull() {
			return cty.UnknownVal(v.Type()).RefineNotNull(), nil
		}
		return v, nil
	})
	if err != nil {
		return u
	}
	return out
}
