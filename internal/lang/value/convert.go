package value

import (
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Convert is convert.Convert, without its seconds for the ten thousand elements that a site may write: cty compares the type of
// each element of a tuple with that of each other one, to find what they have in common.
func Convert(v cty.Value, t cty.Type) (cty.Value, error) {
	if t.IsListType() || t.IsSetType() {
		v = alike(v)
	}
	return convert.Convert(v, t)
}

// alike is a tuple as the list that it is, if all its elements have one type.
func alike(v cty.Value) cty.Value {
	if v.IsMarked() || !v.IsKnown() || v.IsNull() || !v.Type().IsTupleType() || v.LengthInt() == 0 {
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
