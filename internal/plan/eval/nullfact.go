package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

// classify sets the codes of errors, and marks those that a null fact caused.
func (s Scope) classify(diags hcl.Diagnostics, xs ...hclsyntax.Expression) hcl.Diagnostics {
	out := slices.Clone(diags)
	for i, d := range out {
		if s.isNullCaused(d, xs) {
			out[i] = s.nullFact(d, xs)
		}
	}

	return addCodes(out)
}

// isNullCaused reports whether an error of expressions is about a fact that is null: HCL's text says that something is
// null, and a name in the part that failed is of facts and null, or has a null in it. The elements of a loop and the
// arguments of LIST... are of facts where anything in the expressions is.
func (s Scope) isNullCaused(d *hcl.Diagnostic, xs []hclsyntax.Expression) bool {
	part, isExpression := d.Expression.(hclsyntax.Expression)
	text := strings.ReplaceAll(d.Summary+d.Detail, orNull, "")
	isOfNull := d.Severity == hcl.DiagError && d.EvalContext != nil && strings.Contains(text, "null")
	if !isExpression || !isOfNull || !s.e.Reach(append(xs, s.forEach)...).Facts {
		return false
	}
	if _, isArgument := part.(*hclsyntax.LiteralValueExpr); isArgument {
		return true
	}

	return slices.ContainsFunc(part.Variables(), func(reference hcl.Traversal) bool {
		var of hclsyntax.Expression = &hclsyntax.ScopeTraversalExpr{Traversal: reference}
		if reference.RootName() == "each" {
			of = s.forEach
		}
		_, isOfSite := rootOf(d.EvalContext).Variables[reference.RootName()]

		return hasNull(reference, d.EvalContext) && (!isOfSite || s.e.Reach(of).Facts)
	})
}

// hasNull reports whether the value of a name, or one on the way to it, is null or has a null in it.
func hasNull(reference hcl.Traversal, names *hcl.EvalContext) bool {
	v, diags := reference[:1].TraverseAbs(names)
	for _, step := range reference[1:] {
		if diags.HasErrors() || v.IsNull() {
			break
		}
		v, diags = step.TraversalStep(v)
	}
	if diags.HasErrors() {
		return false
	}
	for _, inner := range cty.DeepValues(v) {
		if inner.IsNull() {
			return true
		}
	}

	return false
}

// findNull returns the part of a name whose value is null: of facts.a.b, facts.a where that has no b to ask for.
func findNull(reference hcl.Traversal, names *hcl.EvalContext) hcl.Range {
	v, diags := reference[:1].TraverseAbs(names)
	at := reference[0].(hcl.TraverseRoot).SrcRange
	for _, step := range reference[1:] {
		if diags.HasErrors() || v.IsNull() {
			break
		}
		v, diags = step.TraversalStep(v)
		at = hcl.RangeBetween(at, hcl.Traversal{step}.SourceRange())
	}

	return at
}

// nullFactExtra marks an error that a null fact caused.
type nullFactExtra struct {
	soft bool      // a label or a taint is left out
	item hcl.Range // the expression of the item, or the part of it that failed
}

// DiagnosticCode implements origin.Coded.
func (nullFactExtra) DiagnosticCode() fault.Code {
	return fault.NullFact
}

func (s Scope) nullFact(d *hcl.Diagnostic, xs []hclsyntax.Expression) *hcl.Diagnostic {
	next := "Handle that case, for example: X == null ? null : …"
	switch failed := d.Expression.(type) {
	case *hclsyntax.LiteralValueExpr: // an argument of LIST...
		next = "Leave it out: [for x in LIST : x if x != null]."
	case *hclsyntax.ScopeTraversalExpr:
		at := findNull(failed.Traversal, d.EvalContext)
		next = fmt.Sprintf("Handle that case, for example: %s == null ? null : …", s.e.Text(at))
	}
	c := *d
	c.Detail = d.Detail + " This expression uses a fact that could not be detected on this machine, so it is null. " +
		next
	if s.soft {
		c.Detail += " What depends on it is left out, and the boot is degraded."
	}
	extra := nullFactExtra{soft: s.soft}
	for _, x := range xs {
		extra.item = x.Range()
	}
	for _, x := range xs {
		if d.Subject != nil && x.Range().Overlaps(*d.Subject) { // else it is in a local
			extra.item = *d.Subject
		}
	}
	c.Extra = extra

	return &c
}

// explainNulls completes the notes of null facts that were compared, and drops those of other values.
func (s Scope) explainNulls(diags hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range diags {
		if x, isExpression := d.Expression.(hclsyntax.Expression); isExpression && origin.IsNote(d) {
			if !s.e.Reach(x).Facts {
				continue
			}
			c := *d
			c.Detail = fmt.Sprintf("%[1]s is null on this machine, so it equals no value. `prelet detect` prints why. "+
				"If that is right, say so: %[1]s != null && …", s.e.Text(x.Range()))
			d = &c
		}
		out = append(out, d)
	}

	return out
}

// IsLeftOut reports whether a diagnostic is about a label or a taint that is left out for a null fact.
func IsLeftOut(d *hcl.Diagnostic) bool {
	extra, ok := d.Extra.(nullFactExtra)
	return ok && extra.soft
}

// ItemOf returns the place of the label or taint that is left out; the error itself may be in a local.
func ItemOf(d *hcl.Diagnostic) hcl.Range {
	extra, _ := d.Extra.(nullFactExtra)
	return extra.item
}

// FactCaused reports whether a null fact caused an error.
func FactCaused(d *hcl.Diagnostic) bool {
	_, ok := d.Extra.(nullFactExtra)
	return ok
}

// AreLeftOut reports whether every error is about something that is left out.
func AreLeftOut(diags hcl.Diagnostics) bool {
	isOther := func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && !IsLeftOut(d)
	}

	return !slices.ContainsFunc(diags, isOther)
}

// Soften turns errors about left-out items into warnings.
func Soften(diags hcl.Diagnostics) hcl.Diagnostics {
	out := slices.Clone(diags)
	for i, d := range out {
		if IsLeftOut(d) {
			c := *d
			c.Severity = hcl.DiagWarning
			out[i] = &c
		}
	}

	return out
}

// toNotes returns the diagnostics with notes in place of errors. A secret in the wrong place stays an error: no machine
// is the cause.
func toNotes(diags hcl.Diagnostics) hcl.Diagnostics {
	out := slices.Clone(diags)
	for i, d := range out {
		if origin.CodeOf(d) == fault.Sensitive {
			continue
		}
		c := *d
		c.Severity = hcl.DiagWarning
		c.Extra = origin.Extra{Code: origin.CodeOf(d), Note: true}
		out[i] = &c
	}

	return out
}
