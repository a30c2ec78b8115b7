package value

import "github.com/zclconf/go-cty/cty"

// Absent returns the value of a missing thing of type t: collections are empty, scalars null, objects have absent
// attributes and tuples absent elements. So an expression for a node with a device is also valid on a node without it.
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

// UnknownOutput returns an output of type t of a stage that has not run, for checking with no machine: an object whose
// attributes are typed unknowns. Objects and collections inside of it are not null, as in facts. A type that is not an
// object gives an unknown value of that type.
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

// StringMap returns a map of strings as a value, also an empty one.
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

// StringList returns a list of strings as a value, also an empty one.
func StringList(texts []string) cty.Value {
	if len(texts) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	var out []cty.Value
	for _, t := range texts {
		out = append(out, cty.StringVal(t))
	}

	return cty.ListVal(out)
}
