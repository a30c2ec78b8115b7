package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
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

// nameOfElements returns the attribute that names the elements of a list in a message about an index.
func nameOfElements(d *hcl.Diagnostic) string {
	x, isExpression := d.Expression.(hclsyntax.Expression)
	if !isExpression || d.EvalContext == nil {
		return "name"
	}
	if part, isIndex := value.Unwrap(x).(*hclsyntax.IndexExpr); isIndex {
		x = part.Collection
	}
	name, diags := hcl.AbsTraversalForExpr(value.Unwrap(x))
	if diags.HasErrors() {
		return "name"
	}
	v, _ := name[:1].TraverseAbs(d.EvalContext)
	for _, step := range name[1:] {
		next, diags := step.TraversalStep(v)
		if diags.HasErrors() {
			break
		}
		v = next
	}
	t := v.Type()
	if !t.IsListType() || !t.ElementType().IsObjectType() {
		return "name"
	}
	for _, known := range []string{"name", "interface", "address"} {
		if t.ElementType().HasAttribute(known) {
			return known
		}
	}

	return "name"
}

// suggestNumber returns the next step for an operator that was given something else than a number.
func (e *Eval) suggestNumber(d *hcl.Diagnostic) string {
	if d.Context != nil && strings.Contains(e.Text(*d.Context), "+") {
		return "To join texts, write them into one: \"${a}-${b}\"."
	}

	return "Texts are compared with == and != only; tonumber(TEXT) is the number of a text."
}

// calledName matches the function in a message of HCL about the number of arguments.
var calledName = texts.LazyRegexp(`Function "([a-z0-9_]+)"`)

// suggestCall returns how a function is called.
func (e *Eval) suggestCall(d *hcl.Diagnostic) string {
	found := calledName().FindStringSubmatch(d.Detail)
	if found == nil {
		return ""
	}
	f, exists := e.Functions()[found[1]]
	if !exists {
		return ""
	}
	var names []string
	for _, p := range f.Params() {
		names = append(names, p.Name)
	}
	if p := f.VarParam(); p != nil {
		names = append(names, p.Name+"…")
	}

	return fmt.Sprintf("Write %s(%s).", found[1], strings.Join(names, ", "))
}

// suggestSplit returns the next step for an element that a text without a separator does not have.
func suggestSplit(d *hcl.Diagnostic) string {
	x, isExpression := d.Expression.(hclsyntax.Expression)
	if !isExpression || d.EvalContext == nil {
		return ""
	}
	if key, isKey := value.Unwrap(x).(*hclsyntax.RelativeTraversalExpr); isKey {
		x = key.Source
	} else if key, isKey := value.Unwrap(x).(*hclsyntax.IndexExpr); isKey {
		x = key.Collection
	}
	call, isCall := value.Unwrap(x).(*hclsyntax.FunctionCallExpr)
	if !isCall || call.Name != "split" || len(call.Args) != 2 {
		return ""
	}
	by, _ := call.Args[0].Value(d.EvalContext)
	given, diags := call.Args[1].Value(d.EvalContext)
	text, err := convert.Convert(given, cty.String)
	if diags.HasErrors() || err != nil || !value.IsText(by) || !value.IsText(text) {
		return ""
	}

	parts := strings.Count(text.AsString(), by.AsString()) + 1
	found := fmt.Sprintf("split of %q by %q has %d elements, from [0]", text.AsString(), by.AsString(), parts)
	if parts == 1 {
		found = fmt.Sprintf("%q has no %q, so split has one element, [0]", text.AsString(), by.AsString())
	}
	if given.Type() == cty.Number {
		found += "; it was written as a number, which has no leading zeros: write it in quotes"
	}

	return found + ". Correct the value; where the part may be missing, " + orNull
}
