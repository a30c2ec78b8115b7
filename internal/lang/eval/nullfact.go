package eval

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
)

// classify sets the codes of errors, and marks those that a null fact caused.
func (s Scope) classify(diags hcl.Diagnostics, xs ...hclsyntax.Expression) hcl.Diagnostics {
	isOfExpression := func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Expression != nil
	}
	isNullCaused := slices.ContainsFunc(diags, isOfExpression) && s.isNullCaused(xs)
	out := slices.Clone(diags)
	for i, d := range out {
		if isNullCaused && isOfExpression(d) {
			out[i] = s.nullFact(d)
		}
	}

	return addCodes(out)
}

// isNullCaused reports whether expressions refer to facts and would have no error with unknown facts in place of null
// ones. They are evaluated again for that: HCL's error does not say which value of a part that failed is its reason.
func (s Scope) isNullCaused(xs []hclsyntax.Expression) bool {
	each := s.each
	isOfFacts := s.e.Reach(xs...).Facts
	if s.usesEach(xs) && s.e.Reach(s.forEach).Facts {
		isOfFacts = true
		each = value.NullsToUnknown(each)
	}
	if !isOfFacts {
		return false
	}

	e := s.e.withoutNullFacts()
	for _, x := range xs {
		if _, diags := e.Value(x, each); diags.HasErrors() {
			return false
		}
	}

	return true
}

// usesEach reports whether one of the expressions uses an element of for_each.
func (s Scope) usesEach(xs []hclsyntax.Expression) bool {
	return s.forEach != nil && slices.ContainsFunc(xs, func(x hclsyntax.Expression) bool {
		return slices.ContainsFunc(s.e.site.MentionsOf(x).References, func(reference hcl.Traversal) bool {
			return reference.RootName() == "each"
		})
	})
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
	case *hclsyntax.LiteralValueExpr: // an argument of LIST...
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
