package value

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agext/levenshtein"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
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
func criteria(et cty.Type, want cty.Value) (map[string]cty.Value, error) {
	t := want.Type()
	if !t.IsObjectType() && !t.IsMapType() {
		return nil, function.NewArgErrorf(
			1,
			"attributes and their values are needed, as in {vendor = \"nvidia\"}, not %s",
			t.FriendlyName(),
		)
	}
	out := map[string]cty.Value{}
	if t.IsObjectType() { // the names and types are known even when the values are not
		for k, at := range t.AttributeTypes() {
			v := cty.UnknownVal(at)
			if want.IsKnown() && !want.IsNull() {
				v = want.GetAttr(k)
			}
			out[k] = v
		}
	} else if want.IsKnown() && !want.IsNull() {
		out = want.AsValueMap()
	}
	for _, k := range sortedKeys(out) {
		if !et.HasAttribute(k) {
			return nil, function.NewArgErrorf(
				1,
				"the elements have no attribute %s%s",
				quoteShort(k),
				suggest(k, sortedKeys(et.AttributeTypes())),
			)
		}
		v, err := convert.Convert(out[k], et.AttributeType(k))
		if err != nil {
			return nil, function.NewArgErrorf(
				1,
				"attribute %s is %s: %s",
				quoteShort(k),
				et.AttributeType(k).FriendlyName(),
				err,
			)
		}
		out[k] = v
	}
	return out, nil
}

// matches compares one element; known is false if the result depends on an unknown value.
func matches(e cty.Value, want map[string]cty.Value) (keep, known bool) {
	if !e.IsKnown() {
		return false, false
	}
	if e.IsNull() {
		return false, true
	}
	known = true
	for k, w := range want {
		got := e.GetAttr(k)
		if !got.IsKnown() || !w.IsKnown() {
			known = false
			continue
		}
		if got.IsNull() || w.IsNull() {
			if got.IsNull() != w.IsNull() {
				return false, true
			}
			continue
		}
		eq := got.Equals(w)
		if !eq.IsKnown() {
			known = false
		} else if eq.False() {
			return false, true // whatever the others are
		}
	}
	return known, known
}

// suggest returns the end of a message about a misspelt name.
func suggest(given string, names []string) string {
	best, least := "", 3 // as HCL: distance of at most two
	for _, n := range names {
		if d := levenshtein.Distance(given, n, nil); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}
