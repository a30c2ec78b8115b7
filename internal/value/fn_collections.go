package value

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func anything(name string) function.Parameter {
	return function.Parameter{Name: name, Type: cty.DynamicPseudoType}
}

// lengthFunc is Terraform's: of strings in characters as people count them, of objects and tuples by their type.
func lengthFunc() function.Function {
	p := anything("value")
	p.AllowUnknown, p.AllowDynamicType = true, true
	return function.New(&function.Spec{
		Description: "The number of elements of a list, set, map, tuple or object, or of characters of a string.",
		Params:      []function.Parameter{p},
		Type: func(a []cty.Value) (cty.Type, error) {
			t := a[0].Type()
			if t == cty.String || t == cty.DynamicPseudoType || t.IsObjectType() || t.IsTupleType() || t.IsCollectionType() {
				return cty.Number, nil
			}
			return cty.NilType, function.NewArgErrorf(0, "a collection, an object or a string is needed, not %s", t.FriendlyName())
		},
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			switch t := a[0].Type(); {
			case t.IsObjectType():
				return cty.NumberIntVal(int64(len(t.AttributeTypes()))), nil
			case t.IsTupleType():
				return cty.NumberIntVal(int64(t.Length())), nil
			case t == cty.DynamicPseudoType:
				return cty.UnknownVal(cty.Number).RefineNotNull(), nil
			case t == cty.String && a[0].IsKnown():
				return stdlib.Strlen(a[0])
			case t == cty.String:
				return cty.UnknownVal(cty.Number).RefineNotNull(), nil
			}
			return a[0].Length(), nil
		},
	})
}

// compactFunc leaves out nulls as well as empty strings, as Terraform's does.
func compactFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The strings of a list that are neither null nor empty.",
		Params:      []function.Parameter{{Name: "list", Type: cty.List(cty.String)}},
		Type:        function.StaticReturnType(cty.List(cty.String)),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			if !a[0].IsWhollyKnown() {
				return cty.UnknownVal(cty.List(cty.String)).RefineNotNull(), nil
			}
			var out []cty.Value
			for _, v := range a[0].AsValueSlice() {
				if !v.IsNull() && v.AsString() != "" {
					out = append(out, v)
				}
			}
			return listOf(cty.String, out), nil
		},
	})
}

func listOf(et cty.Type, vs []cty.Value) cty.Value {
	if len(vs) == 0 {
		return cty.ListValEmpty(et)
	}
	return cty.ListVal(vs)
}

// indexFunc is Terraform's index, which finds; cty's of that name is the operator.
func indexFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The position of the first element of a list that equals a value. Not there: an error.",
		Params:      []function.Parameter{anything("list"), anything("value")},
		Type: func(a []cty.Value) (cty.Type, error) {
			if t := a[0].Type(); !t.IsListType() && !t.IsTupleType() {
				return cty.NilType, function.NewArgErrorf(0, "a list or tuple is needed, not %s", t.FriendlyName())
			}
			return cty.Number, nil
		},
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			i := int64(0)
			for it := a[0].ElementIterator(); it.Next(); i++ {
				_, e := it.Element()
				eq, err := stdlib.Equal(e, a[1])
				if err != nil {
					continue
				}
				if !eq.IsKnown() {
					return cty.UnknownVal(cty.Number).RefineNotNull(), nil
				}
				if eq.True() {
					return cty.NumberIntVal(i), nil
				}
			}
			return cty.NilVal, errors.New("the list does not have that element")
		},
	})
}

// oneFunc is Terraform's: none is null, one is itself, more are an error.
func oneFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The only element of a list, set or tuple; null if there is none.",
		Params:      []function.Parameter{anything("list")},
		Type: func(a []cty.Value) (cty.Type, error) {
			switch t := a[0].Type(); {
			case t.IsListType() || t.IsSetType():
				return t.ElementType(), nil
			case t.IsTupleType() && t.Length() == 0:
				return cty.DynamicPseudoType, nil
			case t.IsTupleType() && t.Length() == 1:
				return t.TupleElementType(0), nil
			case t.IsTupleType():
				return cty.NilType, function.NewArgErrorf(0, "at most one element, not %d", t.Length())
			default:
				return cty.NilType, function.NewArgErrorf(0, "a list, set or tuple is needed, not %s", t.FriendlyName())
			}
		},
		Impl: func(a []cty.Value, rt cty.Type) (cty.Value, error) {
			n := a[0].Length()
			if !n.IsKnown() {
				return cty.UnknownVal(rt), nil
			}
			switch a[0].LengthInt() {
			case 0:
				return cty.NullVal(rt), nil
			case 1:
				it := a[0].ElementIterator()
				it.Next()
				_, e := it.Element()
				return e, nil
			}
			return cty.NilVal, function.NewArgErrorf(0, "at most one element, not %d", a[0].LengthInt())
		},
	})
}

// boolsFunc is Terraform's alltrue (all) and anytrue: null counts as false.
func boolsFunc(all bool) function.Function {
	desc := "Whether at least one element of a list is true."
	if all {
		desc = "Whether all elements of a list are true; of an empty one, true."
	}
	return function.New(&function.Spec{
		Description: desc,
		Params:      []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:        function.StaticReturnType(cty.Bool),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			unknown := false
			for it := a[0].ElementIterator(); it.Next(); {
				_, e := it.Element()
				switch {
				case !e.IsKnown():
					unknown = true
				case (!e.IsNull() && e.True()) != all:
					return cty.BoolVal(!all), nil
				}
			}
			if unknown {
				return cty.UnknownVal(cty.Bool).RefineNotNull(), nil
			}
			return cty.BoolVal(all), nil
		},
	})
}

// rangeFunc is Terraform's range with the bound of maxListLen elements.
func rangeFunc() function.Function {
	return function.New(&function.Spec{
		Description: fmt.Sprintf("Numbers from a start (0) up to but not including a limit, by a step (1 or -1); at most %d.", maxListLen),
		VarParam:    &function.Parameter{Name: "numbers", Type: cty.Number},
		Type:        function.StaticReturnType(cty.List(cty.Number)),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			start, step := cty.Zero, cty.NumberIntVal(1)
			var end cty.Value
			switch len(a) {
			case 1:
				end = a[0]
			case 2, 3:
				start, end = a[0], a[1]
			default:
				return cty.NilVal, errors.New("one to three numbers are needed: limit; start, limit; or start, limit, step")
			}
			if end.LessThan(start).True() {
				step = cty.NumberIntVal(-1)
			}
			if len(a) == 3 {
				step = a[2]
			}
			sign := step.AsBigFloat().Sign()
			if sign == 0 {
				return cty.NilVal, function.NewArgErrorf(2, "the step must not be 0")
			}
			var out []cty.Value
			for n := start; n.AsBigFloat().Cmp(end.AsBigFloat())*sign < 0; n = n.Add(step) {
				if len(out) == maxListLen {
					return cty.NilVal, fmt.Errorf("more than %d numbers", maxListLen)
				}
				out = append(out, n)
			}
			return listOf(cty.Number, out), nil
		},
	})
}

func setProductFunc() function.Function {
	return bounded(stdlib.SetProductFunc, func(a []cty.Value) error {
		n := big.NewInt(1)
		for _, s := range a {
			if !s.IsKnown() || s.IsNull() || !s.CanIterateElements() || s.Type().IsObjectType() || s.Type().IsMapType() {
				return nil
			}
			n.Mul(n, big.NewInt(int64(s.LengthInt())))
		}
		if n.Cmp(big.NewInt(maxListLen)) > 0 {
			return fmt.Errorf("the product has %s elements; at most %d can be made", n, maxListLen)
		}
		return nil
	})
}
