package testfile

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// The operators == and != of conditions. Those of the language are false for a list and a tuple, or a map and an
// object, whatever is in them: node.labels == { a = "b" } could not be true, for a literal is an object.
var (
	equal    = compareWith(func(same cty.Value) cty.Value { return same })
	notEqual = compareWith(cty.Value.Not)
)

// compareWith returns an operator whose result is made from the equality of its operands.
func compareWith(result func(same cty.Value) cty.Value) *hclsyntax.Operation {
	operand := func(name string) function.Parameter {
		return function.Parameter{
			Name:             name,
			Type:             cty.DynamicPseudoType,
			AllowUnknown:     true,
			AllowDynamicType: true,
			AllowNull:        true,
		}
	}

	return &hclsyntax.Operation{
		Type: cty.Bool,
		Impl: function.New(&function.Spec{
			Params: []function.Parameter{operand("a"), operand("b")},
			Type:   function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return result(compare(args[0], args[1])), nil
			},
		}),
	}
}

func compare(a, b cty.Value) cty.Value {
	if a.IsWhollyKnown() && b.IsWhollyKnown() {
		a = makeLiteral(a)
		b = makeLiteral(b)
	}
	if a.IsNull() && b.IsNull() {
		return cty.True
	}

	// cty answers false for two types, also where a value that is not known could turn out to be equal.
	isOpen := !a.IsWhollyKnown() || !b.IsWhollyKnown()
	if isOpen && !a.Type().Equals(b.Type()) && isComparable(a.Type(), b.Type()) {
		return cty.UnknownVal(cty.Bool)
	}

	return a.Equals(b)
}

// isComparable reports whether values of both types have elements by position, or elements by name.
func isComparable(a, b cty.Type) bool {
	isSequence := func(t cty.Type) bool { return t.IsListType() || t.IsTupleType() }
	isMapping := func(t cty.Type) bool { return t.IsMapType() || t.IsObjectType() }

	return isSequence(a) && isSequence(b) || isMapping(a) && isMapping(b)
}

// makeLiteral returns a value of the types that literals have: tuples and objects, no lists and maps.
func makeLiteral(v cty.Value) cty.Value {
	t := v.Type()
	switch {
	case v.IsNull():
	case t.IsListType() || t.IsTupleType():
		all := v.AsValueSlice()
		for i := range all {
			all[i] = makeLiteral(all[i])
		}
		return cty.TupleVal(all)
	case t.IsMapType() || t.IsObjectType():
		all := v.AsValueMap()
		for name := range all {
			all[name] = makeLiteral(all[name])
		}
		return cty.ObjectVal(all)
	}

	return v
}

// replaceOperators gives an expression of a test its own == and !=.
func replaceOperators(x hclsyntax.Expression) {
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics { // the callback returns none
		if b, ok := n.(*hclsyntax.BinaryOpExpr); ok {
			switch b.Op.Impl {
			case stdlib.EqualFunc:
				b.Op = equal
			case stdlib.NotEqualFunc:
				b.Op = notEqual
			}
		}

		return nil
	})
}
