package functions

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/model/texts"
)

// whereFunc filters a list of objects by equality and keeps its type, unlike a for expression, so attributes of the
// result are checked without a machine.
func whereFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The elements of a list of objects whose attributes equal those given: where(facts.gpus, " +
			"{vendor = \"nvidia\"}). Null equals only null.",
		Params: []function.Parameter{anything("list"), anything("attributes")},
		Type: func(a []cty.Value) (cty.Type, error) {
			t, err := objectsType(a[0].Type())
			if err != nil || t.IsTupleType() {
				return t, err
			}
			_, err = criteria(t.ElementType(), a[1])
			return t, err
		},
		Impl: func(a []cty.Value, rt cty.Type) (cty.Value, error) {
			if rt.IsTupleType() {
				return cty.EmptyTupleVal, nil
			}
			want, err := criteria(rt.ElementType(), a[1])
			if err != nil {
				return cty.NilVal, err
			}
			list, err := convert.Convert(a[0], rt)
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			var out []cty.Value
			for it := list.ElementIterator(); it.Next(); {
				_, e := it.Element()
				keep, known := matches(e, want)
				if !known {
					return unknownOf(rt), nil
				}
				if keep {
					out = append(out, e)
				}
			}
			return listOf(rt.ElementType(), out), nil
		},
	})
}

// objectsType returns the list type of a filtered t. An empty tuple, [] in a site, stays one.
func objectsType(t cty.Type) (cty.Type, error) {
	if t.IsTupleType() {
		if t.Length() == 0 {
			return t, nil
		}
		// An element that has no type yet, null for one, takes that of the others.
		typed := slices.DeleteFunc(
			slices.Clone(t.TupleElementTypes()),
			func(et cty.Type) bool {
				return et == cty.DynamicPseudoType
			},
		)
		if et, _ := convert.Unify(typed); et != cty.NilType {
			t = cty.List(et)
		}
	}
	if !t.IsListType() || !t.ElementType().IsObjectType() {
		return refuseType(
			0,
			"a list of objects is needed, not %s",
			t.FriendlyName(),
		)
	}
	return t, nil
}

// criteria returns the wanted values, converted to the types of the elements' attributes.
func criteria(element cty.Type, want cty.Value) (map[string]cty.Value, error) {
	out := map[string]cty.Value{}
	switch t := want.Type(); {
	case t.IsObjectType(): // the names and types are known even when the values are not
		for name := range t.AttributeTypes() {
			out[name] = want.GetAttr(name)
		}
	case !t.IsMapType():
		return nil, function.NewArgErrorf(
			1,
			"attributes and their values are needed, as in {vendor = \"nvidia\"}, not %s",
			t.FriendlyName(),
		)
	case want.IsKnown():
		out = want.AsValueMap()
	}

	for _, name := range sortedKeys(out) {
		if !element.HasAttribute(name) {
			hint := ""
			if near := texts.Nearest(name, sortedKeys(element.AttributeTypes())); near != "" {
				hint = fmt.Sprintf(" (did you mean %q?)", near)
			}
			const message = "the elements have no attribute %s%s"
			return nil, function.NewArgErrorf(1, message, texts.QuoteShort(name), hint)
		}
		v, err := convert.Convert(out[name], element.AttributeType(name))
		if err != nil {
			return nil, function.NewArgErrorf(
				1,
				"attribute %s is %s: %s",
				texts.QuoteShort(name),
				element.AttributeType(name).FriendlyName(),
				err,
			)
		}
		out[name] = v
	}

	return out, nil
}

// matches compares one element; isKnown is false if the result depends on an unknown value. Null equals only null.
func matches(element cty.Value, want map[string]cty.Value) (isMatch, isKnown bool) {
	switch {
	case !element.IsKnown():
		return false, false
	case element.IsNull():
		return false, true
	}

	isKnown = true
	for name, wanted := range want {
		switch isEqual := element.GetAttr(name).Equals(wanted); {
		case !isEqual.IsKnown():
			isKnown = false
		case isEqual.False():
			return false, true // whatever the others are
		}
	}

	return isKnown, isKnown
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}
