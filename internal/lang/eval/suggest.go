package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
)

// suggestAttribute returns the attribute that was probably meant by a missing one, or "".
func suggestAttribute(d *hcl.Diagnostic) string {
	x, ok := d.Expression.(hclsyntax.Expression)
	if d.Summary != "Unsupported attribute" || d.EvalContext == nil || !ok {
		return ""
	}

	var v cty.Value
	var steps hcl.Traversal
	var diags hcl.Diagnostics
	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		steps = x.Traversal[1:]
		v, diags = x.Traversal[:1].TraverseAbs(d.EvalContext)
	case *hclsyntax.RelativeTraversalExpr:
		steps = x.Traversal
		v, diags = x.Source.Value(d.EvalContext)
	}
	if diags.HasErrors() {
		return ""
	}

	for _, step := range steps {
		next, diags := step.TraversalStep(v)
		if !diags.HasErrors() {
			v = next
			continue
		}
		if attribute, ok := step.(hcl.TraverseAttr); ok && v.Type().IsObjectType() {
			return schema.Suggest(attribute.Name, sortedKeys(v.Type().AttributeTypes()))
		}
		break
	}

	return ""
}
