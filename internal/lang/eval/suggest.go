package eval

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
)

// suggestAttribute returns the attribute or the key that was probably meant by a missing one, or "". It looks names up;
// of anything else that has attributes, such as a call, it knows those of its type.
func (e *Eval) suggestAttribute(d *hcl.Diagnostic) string {
	x, ok := d.Expression.(hclsyntax.Expression)
	if d.EvalContext == nil || !ok {
		return ""
	}

	var key hcl.Traversal
	switch part := value.Unwrap(x).(type) {
	case *hclsyntax.RelativeTraversalExpr:
		x, key = part.Source, part.Traversal
	case *hclsyntax.IndexExpr:
		x, key = part.Collection, hcl.Traversal{hcl.TraverseIndex{Key: lookUp(part.Key, d.EvalContext)}}
	}
	c := comparer{Eval: e, locals: map[string]operand{}}
	v := cty.UnknownVal(c.typeOf(x).Type)
	name, diags := hcl.AbsTraversalForExpr(value.Unwrap(x))
	if !diags.HasErrors() {
		v, _ = name[:1].TraverseAbs(d.EvalContext)
		key = slices.Concat(name[1:], key)
	}

	for _, step := range key {
		next, diags := step.TraversalStep(v)
		if !diags.HasErrors() {
			v = next
			continue
		}
		name, _, isName := findSecondName(hcl.Traversal{hcl.TraverseRoot{}, step})
		switch {
		case !isName || v.IsMarked() || v.IsNull(): // marks inside are not of the names
		case v.Type().IsObjectType():
			return schema.Suggest(name, sortedKeys(v.Type().AttributeTypes()))
		case !v.IsKnown():
		case v.Type().IsMapType() && v.LengthInt() == 0:
			return "It is empty. Where it may be, " + orNull
		case v.Type().IsMapType():
			return schema.Suggest(name, sortedKeys(v.AsValueMap()))
		}
		break
	}

	return ""
}

// lookUp returns the value of an expression that is a name, and an unknown one of any other.
func lookUp(x hclsyntax.Expression, names *hcl.EvalContext) cty.Value {
	name, diags := hcl.AbsTraversalForExpr(x)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	v, _ := name.TraverseAbs(names)

	return v
}
