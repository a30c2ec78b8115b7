package value

import (
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Convert is convert.Convert for large tuples: cty compares the types of all pairs of elements, which takes seconds for
// the ten thousand elements that a site may have.
func Convert(v cty.Value, t cty.Type) (cty.Value, error) {
	if t.IsListType() || t.IsSetType() {
		v = listOfTuple(v)
	}
	return convert.Convert(v, t)
}

// listOfTuple returns a tuple as a list, if all its elements have the same type.
func listOfTuple(v cty.Value) cty.Value {
	hasValue := !v.IsMarked() && v.IsKnown() && !v.IsNull()
	if !hasValue || !v.Type().IsTupleType() || v.LengthInt() == 0 {
		return v
	}
	types := v.Type().TupleElementTypes()
	if types[0].HasDynamicTypes() {
		return v
	}
	for _, t := range types[1:] {
		if !t.Equals(types[0]) {
			return v
		}
	}
	return cty.ListVal(v.AsValueSlice())
}
