package value

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
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
			switch {
			case sign == 0:
				return cty.NilVal, function.NewArgErrorf(2, "the step must not be 0")
			case len(a) == 3 && end.AsBigFloat().Cmp(start.AsBigFloat())*sign < 0:
				return cty.NilVal, function.NewArgErrorf(2, "the step leads away from the limit")
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

// coalesceFunc is Terraform's: beside nulls it passes over empty strings. A secret counts as not empty.
func coalesceFunc() function.Function {
	p := anything("vals")
	p.AllowNull, p.AllowUnknown, p.AllowDynamicType = true, true, true
	return function.New(&function.Spec{
		Description: "The first of the arguments that is neither null nor an empty string. None: an error.",
		VarParam:    &p,
		Type:        stdlib.CoalesceFunc.ReturnTypeForValues,
		Impl: func(a []cty.Value, t cty.Type) (cty.Value, error) {
			for _, v := range a {
				v, err := convert.Convert(v, t)
				if err != nil {
					return cty.NilVal, err
				}
				plain, _ := v.Unmark()
				if !plain.IsKnown() || !plain.IsNull() && !plain.RawEquals(cty.StringVal("")) {
					return v, nil
				}
			}
			return cty.NilVal, errors.New("all arguments are null or empty")
		},
	})
}

// lookupFunc is Terraform's: the default may be null, or left out.
func lookupFunc() function.Function {
	inputMap, preset := anything("inputMap"), anything("default")
	preset.AllowNull, preset.AllowDynamicType = true, true
	return function.New(&function.Spec{
		Description: "The element of a map, or attribute of an object, with a key; without one the default, which may be null. Without a default: an error.",
		Params:      []function.Parameter{inputMap, text("key")},
		VarParam:    &preset,
		Type: func(a []cty.Value) (cty.Type, error) {
			t := a[0].Type()
			switch {
			case len(a) > 3:
				return cty.NilType, errors.New("a map, a key and at most one default are needed")
			case t.IsMapType():
				if len(a) == 3 {
					if _, err := convert.Convert(a[2], t.ElementType()); err != nil {
						return cty.NilType, function.NewArgErrorf(2, "the default must be of the type of the elements")
					}
				}
				return t.ElementType(), nil
			case !t.IsObjectType():
				return cty.NilType, function.NewArgErrorf(0, "a map or an object is needed, not %s", t.FriendlyName())
			case !a[1].IsKnown():
				return cty.DynamicPseudoType, nil
			case t.HasAttribute(a[1].AsString()):
				return t.AttributeType(a[1].AsString()), nil
			case len(a) == 3:
				return a[2].Type(), nil
			}
			return cty.NilType, function.NewArgErrorf(1, "there is no attribute %s, and no default", quoteShort(a[1].AsString()))
		},
		Impl: func(a []cty.Value, t cty.Type) (cty.Value, error) {
			switch key := a[1]; {
			case a[0].Type().IsObjectType() && a[0].Type().HasAttribute(key.AsString()):
				return a[0].GetAttr(key.AsString()), nil
			case a[0].Type().IsMapType() && a[0].HasIndex(key).True():
				return a[0].Index(key), nil
			case len(a) == 3:
				return convert.Convert(a[2], t)
			}
			return cty.NilVal, function.NewArgErrorf(1, "there is no element %s, and no default", quoteShort(a[1].AsString()))
		},
	})
}

// sumFunc is Terraform's.
func sumFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The sum of the numbers of a list, set or tuple. Of an empty one: an error.",
		Params:      []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}},
		Type:        function.StaticReturnType(cty.Number),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			if !a[0].IsWhollyKnown() {
				return cty.UnknownVal(cty.Number).RefineNotNull(), nil
			}
			out := cty.Zero
			for _, v := range a[0].AsValueSlice() {
				if v.IsNull() {
					return cty.NilVal, function.NewArgErrorf(0, "an element is null")
				}
				var err error
				if out, err = stdlib.Add(out, v); err != nil {
					return cty.NilVal, err
				}
			}
			if a[0].LengthInt() == 0 {
				return cty.NilVal, function.NewArgErrorf(0, "there is nothing to sum up")
			}
			return out, nil
		},
	})
}

// matchKeysFunc is Terraform's: the elements of a list whose keys, at the same places of another list, are wanted.
func matchKeysFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The elements of a list for which the element at the same place of a list of keys is one of those searched for.",
		Params: []function.Parameter{{Name: "values", Type: cty.List(cty.DynamicPseudoType)}, {Name: "keys", Type: cty.List(cty.DynamicPseudoType)},
			{Name: "searchset", Type: cty.List(cty.DynamicPseudoType)}},
		Type: func(a []cty.Value) (cty.Type, error) { return a[0].Type(), nil },
		Impl: func(a []cty.Value, t cty.Type) (cty.Value, error) {
			if !a[0].IsWhollyKnown() || !a[1].IsWhollyKnown() || !a[2].IsWhollyKnown() {
				return cty.UnknownVal(t).RefineNotNull(), nil
			}
			values, keys := a[0].AsValueSlice(), a[1].AsValueSlice()
			if len(values) != len(keys) {
				return cty.NilVal, function.NewArgErrorf(1, "values and keys must have equally many elements, not %d and %d", len(values), len(keys))
			}
			var out []cty.Value
			for i, key := range keys {
				if slices.ContainsFunc(a[2].AsValueSlice(), func(s cty.Value) bool {
					eq, err := stdlib.Equal(key, s)
					return err == nil && eq.IsKnown() && eq.True()
				}) {
					out = append(out, values[i])
				}
			}
			return listOf(t.ElementType(), out), nil
		},
	})
}

// transposeFunc is Terraform's: from lists by key to keys by element.
func transposeFunc() function.Function {
	t := cty.Map(cty.List(cty.String))
	return function.New(&function.Spec{
		Description: "Of lists by key: by each element the sorted keys whose lists have it.",
		Params:      []function.Parameter{{Name: "values", Type: t}},
		Type:        function.StaticReturnType(t),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			if !a[0].IsWhollyKnown() {
				return cty.UnknownVal(t).RefineNotNull(), nil
			}
			keys := map[string][]cty.Value{}
			for it := a[0].ElementIterator(); it.Next(); {
				key, list := it.Element()
				if list.IsNull() {
					return cty.NilVal, function.NewArgErrorf(0, "a list is null")
				}
				for _, v := range list.AsValueSlice() {
					if v.IsNull() {
						return cty.NilVal, function.NewArgErrorf(0, "an element is null")
					}
					if of := keys[v.AsString()]; len(of) == 0 || !of[len(of)-1].RawEquals(key) {
						keys[v.AsString()] = append(of, key)
					}
				}
			}
			out := map[string]cty.Value{}
			for name, of := range keys {
				out[name] = cty.ListVal(of) // maps are walked in the order of their keys
			}
			if len(out) == 0 {
				return cty.MapValEmpty(cty.List(cty.String)), nil
			}
			return cty.MapVal(out), nil
		},
	})
}
