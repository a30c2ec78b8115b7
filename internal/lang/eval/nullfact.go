package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
)

// classify sets the codes of errors, and marks those that a null fact caused.
func (s Scope) classify(diags hcl.Diagnostics, xs ...hclsyntax.Expression) hcl.Diagnostics {
	out := slices.Clone(diags)
	for i, d := range out {
		if d.Severity == hcl.DiagError && d.Expression != nil && s.isNullCaused(d, xs) {
			out[i] = s.nullFact(d)
		}
	}

	return addCodes(out)
}

// isNullCaused reports whether the part of xs that failed refers to a fact that was null, by the names that it had.
func (s Scope) isNullCaused(d *hcl.Diagnostic, xs []hclsyntax.Expression) bool {
	one, isExpanded := d.Expression.(*hclsyntax.LiteralValueExpr) // an argument of LIST...
	if isExpanded && one.Val.IsNull() {
		return s.e.Reach(xs...).Facts
	}
	if strings.Contains(d.Detail, "required, but have ") || d.Summary == differentTypes { // whatever the values are
		return false
	}
	_, isIndex := d.Expression.(*hclsyntax.IndexExpr) // an element that does not exist is not null
	for _, reference := range d.Expression.Variables() {
		for n := range reference {
			v, failed := reference[:n+1].TraverseAbs(d.EvalContext)
			isWhole := n+1 == len(reference) && !isIndex
			isNull := v.IsNull() || isWhole && value.HasNull(v)
			if !failed.HasErrors() && isNull && s.isOfFacts(reference, xs) {
				return true
			}
		}
	}

	return false
}

// isOfFacts reports whether a reference in xs leads to facts. A name in a loop may be that of any part of xs.
func (s Scope) isOfFacts(reference hcl.Traversal, xs []hclsyntax.Expression) bool {
	switch reference.RootName() {
	case "var", "node":
		return false
	case "local", "stage":
		xs = []hclsyntax.Expression{&hclsyntax.ScopeTraversalExpr{Traversal: reference}}
	case "each":
		xs = []hclsyntax.Expression{s.forEach}
	}

	return s.e.Reach(xs...).Facts
}

// nullFactExtra marks an error that a null fact caused.
type nullFactExtra struct {
	soft bool // a label or a taint is left out
}

// DiagnosticCode implements origin.Coded.
func (nullFactExtra) DiagnosticCode() fault.Code {
	return fault.NullFact
}

func (s Scope) nullFact(d *hcl.Diagnostic) *hcl.Diagnostic {
	next := "Handle that case, for example: X == null ? null : …"
	switch failed := d.Expression.(type) {
	case *hclsyntax.LiteralValueExpr: // see isNullCaused
		next = "Leave it out: [for x in LIST : x if x != null]."
	case *hclsyntax.ScopeTraversalExpr:
		next = fmt.Sprintf("Handle that case, for example: %s == null ? null : …", s.e.Text(failed.SrcRange))
	}
	c := *d
	c.Detail = d.Detail + " This expression uses a fact that could not be detected on this machine, so it is null. " +
		next
	if s.soft {
		c.Detail += " What depends on it is left out, and the boot is degraded."
	}
	c.Extra = nullFactExtra{soft: s.soft}

	return &c
}

// IsLeftOut reports whether a diagnostic is about a label or a taint that is left out for a null fact.
func IsLeftOut(d *hcl.Diagnostic) bool {
	extra, ok := d.Extra.(nullFactExtra)
	return ok && extra.soft
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
