package functions

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/prelet/prelet/internal/model/texts"
)

// implementation computes a function's result from known arguments, none of which is null.
type implementation func(args []cty.Value) (cty.Value, error)

func newFunction(
	doc string,
	result cty.Type,
	impl implementation,
	params ...function.Parameter,
) function.Function {
	return function.New(&function.Spec{
		Description: doc,
		Params:      params,
		Type:        function.StaticReturnType(result),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return impl(args)
		},
	})
}

func parameter(name string, t cty.Type) function.Parameter {
	return function.Parameter{Name: name, Type: t}
}

func anything(name string) function.Parameter {
	return parameter(name, cty.DynamicPseudoType)
}

func refuseArg(i int, format string, args ...any) (cty.Value, error) {
	return cty.NilVal, function.NewArgErrorf(i, format, args...)
}

// refuseType is refuseArg for the function that computes the type of a result.
func refuseType(i int, format string, args ...any) (cty.Type, error) {
	return cty.NilType, function.NewArgErrorf(i, format, args...)
}

// unknownOf returns an unknown value that is not null.
func unknownOf(t cty.Type) cty.Value {
	return cty.UnknownVal(t).RefineNotNull()
}

func listOf(element cty.Type, values []cty.Value) cty.Value {
	if len(values) == 0 {
		return cty.ListValEmpty(element)
	}
	return cty.ListVal(values)
}

// lengthFunc is Terraform's: of strings in characters as people count them, of objects and tuples by their type.
func lengthFunc() function.Function {
	value := anything("value")
	value.AllowUnknown, value.AllowDynamicType = true, true
	value.AllowMarked = true // the number of elements does not depend on a secret in one of them

	return function.New(&function.Spec{
		Description: "The number of elements of a list, set, map, tuple or object, or of characters of a string.",
		Params:      []function.Parameter{value},
		Type: func(args []cty.Value) (cty.Type, error) {
			t := args[0].Type()
			if t == cty.String || t == cty.DynamicPseudoType || t.IsObjectType() ||
				t.IsTupleType() ||
				t.IsCollectionType() {
				return cty.Number, nil
			}
			return refuseType(
				0,
				"a collection, an object or a string is needed, not %s",
				t.FriendlyName(),
			)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].Type() == cty.String {
				return stdlib.Strlen(args[0])
			}
			return args[0].Length(), nil
		},
	})
}

// indexFunc is Terraform's index, which finds an element; cty's function of that name is the operator.
func indexFunc() function.Function {
	find := func(args []cty.Value) (cty.Value, error) {
		t := args[0].Type()
		if !t.IsListType() && !t.IsTupleType() {
			return refuseArg(
				0,
				"a list or tuple is needed, not %s",
				t.FriendlyName(),
			)
		}

		position := int64(0)
		for it := args[0].ElementIterator(); it.Next(); position++ {
			_, element := it.Element()
			equal, err := stdlib.Equal(element, args[1])
			switch {
			case err != nil:
			case !equal.IsKnown():
				return unknownOf(cty.Number), nil
			case equal.True():
				return cty.NumberIntVal(position), nil
			}
		}
		return cty.NilVal, errors.New("the list does not have that element")
	}

	return newFunction(
		"The position of the first element of a list that equals a value; an error without one.",
		cty.Number,
		find,
		anything("list"),
		anything("value"),
	)
}

// oneFunc is Terraform's: null for no element, the element for one, and an error for more.
func oneFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The only element of a list, set or tuple; null if there is none.",
		Params:      []function.Parameter{anything("list")},
		Type: func(args []cty.Value) (cty.Type, error) {
			switch t := args[0].Type(); {
			case t.IsListType() || t.IsSetType():
				return t.ElementType(), nil
			case t.IsTupleType() && t.Length() == 1:
				return t.TupleElementType(0), nil
			case t.IsTupleType():
				return cty.DynamicPseudoType, nil
			default:
				return refuseType(
					0,
					"a list, set or tuple is needed, not %s",
					t.FriendlyName(),
				)
			}
		},
		Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
			if !args[0].Length().IsKnown() {
				return cty.UnknownVal(t), nil
			}
			switch elements := args[0].AsValueSlice(); len(elements) {
			case 0:
				return cty.NullVal(t), nil
			case 1:
				return elements[0], nil
			default:
				return refuseArg(
					0,
					"at most one element, not %d",
					len(elements),
				)
			}
		},
	})
}

// quantifier is Terraform's alltrue (all) or anytrue. Null counts as false.
func quantifier(all bool, doc string) function.Function {
	return newFunction(doc, cty.Bool, func(args []cty.Value) (cty.Value, error) {
		isUnknown := false
		for it := args[0].ElementIterator(); it.Next(); {
			_, element := it.Element()
			switch {
			case !element.IsKnown():
				isUnknown = true
			case (!element.IsNull() && element.True()) != all:
				return cty.BoolVal(!all), nil
			}
		}
		if isUnknown {
			return unknownOf(cty.Bool), nil
		}
		return cty.BoolVal(all), nil
	}, parameter("list", cty.List(cty.Bool)))
}

func setProductFunc() function.Function {
	return checkArguments(stdlib.SetProductFunc, func(args []cty.Value) error {
		n := big.NewInt(1)
		for _, set := range args {
			if !set.IsKnown() || set.IsNull() || !set.CanIterateElements() {
				return nil
			}
			n.Mul(n, big.NewInt(int64(set.LengthInt())))
		}
		if n.Cmp(big.NewInt(maxListLen)) > 0 {
			return fmt.Errorf("the product has %s elements; at most %d can be made", n, maxListLen)
		}
		return nil
	})
}

// coalesceFunc is Terraform's: it passes over empty strings as well as nulls.
func coalesceFunc() function.Function {
	vals := anything("vals")
	vals.AllowNull, vals.AllowUnknown, vals.AllowDynamicType = true, true, true

	return function.New(&function.Spec{
		Description: "The first argument that is neither null nor an empty string. An error if all are.",
		VarParam:    &vals,
		Type:        stdlib.CoalesceFunc.ReturnTypeForValues,
		Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
			for _, v := range args {
				v, err := convert.Convert(v, t)
				if err != nil {
					return cty.NilVal, err
				}
				isEmpty := v.IsNull() || v.RawEquals(cty.StringVal(""))
				if !v.IsKnown() || !isEmpty {
					return v, nil
				}
			}
			return cty.NilVal, errors.New("all arguments are null or empty")
		},
	})
}

// lookupFunc is Terraform's: the default may be null, or left out.
func lookupFunc() function.Function {
	preset := anything("default")
	preset.AllowNull, preset.AllowDynamicType = true, true
	container := anything("inputMap")
	container.AllowMarked = true // the result has the marks of one element

	return function.New(&function.Spec{
		Description: "The element of a map, or attribute of an object, with a key; without one the default, " +
			"which may be null. " +
			"Without a default: an error.",
		Params:   []function.Parameter{container, text("key")},
		VarParam: &preset,
		Type:     lookupType,
		Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
			from, marks := args[0].Unmark()
			key := args[1]
			switch {
			case from.Type().IsObjectType() && from.Type().HasAttribute(key.AsString()):
				return from.GetAttr(key.AsString()).WithMarks(marks), nil
			case from.Type().IsMapType() && from.HasIndex(key).True():
				return from.Index(key).WithMarks(marks), nil
			case len(args) == 3:
				found, err := convert.Convert(args[2], t)
				return found.WithMarks(marks), err
			}
			return refuseArg(
				1,
				"element %s does not exist, and no default is set",
				texts.QuoteShort(key.AsString()),
			)
		},
	})
}

func lookupType(args []cty.Value) (cty.Type, error) {
	t, key := args[0].Type(), args[1]
	hasDefault := len(args) == 3
	switch {
	case len(args) > 3:
		return cty.NilType, errors.New("a map, a key and at most one default are needed")
	case t.IsMapType() && hasDefault:
		if _, err := convert.Convert(args[2], t.ElementType()); err != nil {
			return refuseType(
				2,
				"the default must be of the type of the elements",
			)
		}
		return t.ElementType(), nil
	case t.IsMapType():
		return t.ElementType(), nil
	case !t.IsObjectType():
		return refuseType(
			0,
			"a map or an object is needed, not %s",
			t.FriendlyName(),
		)
	case !key.IsKnown():
		return cty.DynamicPseudoType, nil
	case t.HasAttribute(key.AsString()):
		return t.AttributeType(key.AsString()), nil
	case hasDefault:
		return args[2].Type(), nil
	}

	return refuseType(
		1,
		"attribute %s does not exist, and no default is set",
		texts.QuoteShort(key.AsString()),
	)
}

// sumFunc is Terraform's.
func sumFunc() function.Function {
	return newFunction(
		"The sum of the numbers of a list, set or tuple. An empty one is an error.",
		cty.Number,
		func(args []cty.Value) (cty.Value, error) {
			if !args[0].IsWhollyKnown() {
				return unknownOf(cty.Number), nil
			}
			if args[0].LengthInt() == 0 {
				return refuseArg(0, "there is nothing to sum up")
			}

			sum := cty.Zero
			for _, v := range args[0].AsValueSlice() {
				if v.IsNull() {
					return refuseArg(0, "an element is null")
				}
				sum = sum.Add(v)
			}
			return sum, nil
		},
		parameter("list", cty.List(cty.Number)),
	)
}

// matchKeysFunc is Terraform's: the elements of a list whose keys, at the same places of another list, are searched
// for.
func matchKeysFunc() function.Function {
	list := cty.List(cty.DynamicPseudoType)

	return function.New(&function.Spec{
		Description: "The elements of a list for which the element at the same place of a list of keys is one " +
			"of those searched for.",
		Params: []function.Parameter{
			parameter("values", list),
			parameter("keys", list),
			parameter("searchset", list),
		},
		Type: func(args []cty.Value) (cty.Type, error) {
			return args[0].Type(), nil
		},
		Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
			if !cty.TupleVal(args).IsWhollyKnown() {
				return unknownOf(t), nil
			}

			values := args[0].AsValueSlice()
			keys := args[1].AsValueSlice()
			wanted := args[2].AsValueSlice()
			if len(values) != len(keys) {
				return refuseArg(
					1,
					"values and keys must have equally many elements, not %d and %d",
					len(values),
					len(keys),
				)
			}
			var out []cty.Value
			for i, key := range keys {
				isKey := func(v cty.Value) bool {
					equal, err := stdlib.Equal(key, v)
					return err == nil && equal.True()
				}
				if slices.ContainsFunc(wanted, isKey) {
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

	return newFunction(
		"A map from each element of some lists to the sorted keys of the lists that contain it.", t,
		func(args []cty.Value) (cty.Value, error) {
			if !args[0].IsWhollyKnown() {
				return unknownOf(t), nil
			}

			keys := map[string][]cty.Value{}
			for it := args[0].ElementIterator(); it.Next(); { // in the order of the keys
				key, list := it.Element()
				if list.IsNull() {
					return refuseArg(0, "a list is null")
				}
				for _, v := range list.AsValueSlice() {
					if v.IsNull() {
						return refuseArg(0, "an element is null")
					}
					of := keys[v.AsString()]
					if len(of) == 0 || !of[len(of)-1].RawEquals(key) {
						keys[v.AsString()] = append(of, key)
					}
				}
			}

			out := map[string]cty.Value{}
			for name, of := range keys {
				out[name] = cty.ListVal(of)
			}
			if len(out) == 0 {
				return cty.MapValEmpty(t.ElementType()), nil
			}
			return cty.MapVal(out), nil
		}, parameter("values", t))
}
