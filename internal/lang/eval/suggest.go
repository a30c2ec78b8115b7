package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
)

// suggestAttribute returns the attribute or the key that was probably meant by a missing one, or "".
func suggestAttribute(d *hcl.Diagnostic) string {
	x, ok := d.Expression.(hclsyntax.Expression)
	isMissing := map[string]bool{"Unsupported attribute": true, "Missing map element": true, "Invalid index": true}
	if !isMissing[d.Summary] || d.EvalContext == nil || !ok {
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
	case *hclsyntax.IndexExpr:
		v, diags = x.Collection.Value(d.EvalContext)
		key, more := x.Key.Value(d.EvalContext)
		diags = append(diags, more...)
		steps = hcl.Traversal{hcl.TraverseIndex{Key: key}}
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
		name, _, isName := findSecondName(hcl.Traversal{hcl.TraverseRoot{}, step})
		switch {
		case !isName || v.IsMarked() || !v.IsKnown() || v.IsNull(): // marks inside are not of the names
		case v.Type().IsObjectType():
			return schema.Suggest(name, sortedKeys(v.Type().AttributeTypes()))
		case v.Type().IsMapType() && v.LengthInt() == 0:
			return "It is empty. Where it may be, write try(…, null)."
		case v.Type().IsMapType():
			return schema.Suggest(name, sortedKeys(v.AsValueMap()))
		}
		break
	}

	return ""
}
