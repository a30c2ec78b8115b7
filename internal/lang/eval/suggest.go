package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"maps"
	"slices"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// misspelt says what was probably meant by an attribute that an object does not have: HCL names what is not there,
// and the object is at hand. "" where it cannot be told.
func misspelt(d *hcl.Diagnostic) string {
	if d.Summary != "Unsupported attribute" || d.EvalContext == nil {
		return ""
	}
	var from cty.Value
	var steps hcl.Traversal
	x, ok := d.Expression.(hclsyntax.Expression)
	if !ok {
		return ""
	}
	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		v, ds := x.Traversal[:1].TraverseAbs(d.EvalContext)
		if ds.HasErrors() {
			return ""
		}
		from, steps = v, x.Traversal[1:]
	case *hclsyntax.RelativeTraversalExpr:
		v, ds := x.Source.Value(d.EvalContext)
		if ds.HasErrors() {
			return ""
		}
		from, steps = v, x.Traversal
	default:
		return ""
	}
	for _, st := range steps {
		next, ds := st.TraversalStep(from)
		if !ds.HasErrors() {
			from = next
			continue
		}
		a, ok := st.(hcl.TraverseAttr)
		if t := from.Type(); ok && t.IsObjectType() {
			return schema.Suggest(a.Name, slices.Sorted(maps.Keys(t.AttributeTypes())))
		}
		break
	}
	return ""
}
