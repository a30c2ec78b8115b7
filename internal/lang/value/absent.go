package value

import "github.com/zclconf/go-cty/cty"

// Absent is the value of something of type t that is not there: collections are empty, scalars null, objects have
// absent attributes and tuples absent elements. So what is written for a node that has a device is also valid on one
// that has none.
func Absent(t cty.Type) cty.Value {
	switch {
	case t.IsListType():
		return cty.ListValEmpty(t.ElementType())
	case t.IsSetType():
		return cty.SetValEmpty(t.ElementType())
	case t.IsMapType():
		return cty.MapValEmpty(t.ElementType())
	case t.IsObjectType():
		m := make(map[string]cty.Value, len(t.AttributeTypes()))
		for name, at := range t.AttributeTypes() {
			m[name] = Absent(at)
		}
		return cty.ObjectVal(m)
	case t.IsTupleType():
		var es []cty.Value
		for _, et := range t.TupleElementTypes() {
			es = append(es, Absent(et))
		}
		return cty.TupleVal(es)
	}
	return cty.NullVal(t)
}

// UnknownOutput is an output of type t of a stage that has not run, for checking with no machine: an object whose
// attributes are typed unknowns. Objects inside it are known to be there, collections are not null, as in facts.
// Anything but an object is an unknown of its type.
func UnknownOutput(t cty.Type) cty.Value {
	switch {
	case t.IsObjectType():
		m := make(map[string]cty.Value, len(t.AttributeTypes()))
		for name, at := range t.AttributeTypes() {
			m[name] = UnknownOutput(at)
		}
		return cty.ObjectVal(m)
	case t.IsCollectionType():
		return cty.UnknownVal(t).RefineNotNull()
	}
	return cty.UnknownVal(t)
}

// StringMap is a map of strings as cty has it, which wants to be told the type of an empty one.
func StringMap(m map[string]string) cty.Value {
	if len(m) == 0 {
		return cty.MapValEmpty(cty.String)
	}
	out := make(map[string]cty.Value, len(m))
	for k, v := range m {
		out[k] = cty.StringVal(v)
	}
	return cty.MapVal(out)
}
