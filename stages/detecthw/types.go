package detecthw

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// factsType returns the type of world.Facts in sites: the names of their JSON, pointers as nullable attributes. It is
// made once.
var factsType = sync.OnceValue(func() cty.Type { return typeOf(reflect.TypeFor[world.Facts]()) })

func typeOf(t reflect.Type) cty.Type {
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Slice:
		return cty.List(typeOf(t.Elem()))
	case reflect.Map:
		return cty.Map(typeOf(t.Elem()))
	case reflect.String:
		return cty.String
	case reflect.Bool:
		return cty.Bool
	case reflect.Struct:
		attributes := map[string]cty.Type{}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			attributes[name] = typeOf(t.Field(i).Type)
		}

		return cty.Object(attributes)
	}

	return cty.Number
}

// factsValue returns facts as a value of factsType. An error begins with the place of the fact, as in a site.
func factsValue(f world.Facts) (cty.Value, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return cty.DynamicVal, err
	}

	return value.FromJSONTyped(raw, factsType())
}

// withhold makes the parts of an answer that a recording leaves out unknown instead of null. what names the question,
// and pointers are JSON pointers into the answer. A pointer to a part without a type is an error.
func withhold(v cty.Value, what string, pointers []string) (cty.Value, error) {
	hidden := parts{}
	for _, p := range pointers {
		keys := world.SplitPointer(p)
		if !hasPart(v, keys) {
			return v, fmt.Errorf(
				"it withholds %s %s, which this prelet does not know: "+
					"a newer prelet made the recording, or it was changed; "+
					"use the prelet that made it, or record again",
				what,
				p,
			)
		}
		hidden.add(keys)
	}

	return hidden.hide(v), nil
}

// parts are parts of a value by their names in JSON pointers; nil is the whole value. Values are changed only around
// them: a machine has thousands of facts, and a recording withholds some of each interface and disk.
type parts map[string]parts

func (all parts) add(keys []string) {
	last := len(keys) - 1
	for _, key := range keys[:last] {
		inner, isKnown := all[key]
		switch {
		case !isKnown:
			inner = parts{}
			all[key] = inner
		case inner == nil: // the part is in one that is hidden
			return
		}
		all = inner
	}
	all[keys[last]] = nil
}

// hide returns a value whose parts are unknown. It has all of them.
func (all parts) hide(v cty.Value) cty.Value {
	t := v.Type()
	switch {
	case all == nil:
		return cty.UnknownVal(t)
	case len(all) == 0:
		return v
	case t.IsObjectType() || t.IsMapType():
		members := v.AsValueMap()
		for name, inner := range all {
			members[name] = inner.hide(members[name])
		}
		if t.IsMapType() {
			return cty.MapVal(members)
		}
		return cty.ObjectVal(members)
	}

	elements := v.AsValueSlice()
	for name, inner := range all {
		i, _ := strconv.Atoi(name)
		elements[i] = inner.hide(elements[i])
	}
	if t.IsTupleType() {
		return cty.TupleVal(elements)
	}

	return cty.ListVal(elements)
}

// hasPart reports whether a value has a part.
func hasPart(v cty.Value, keys []string) bool {
	for _, key := range keys {
		t := v.Type()
		i, err := strconv.Atoi(key)
		switch {
		case v.IsNull() || !v.IsKnown():
			return false
		case t.IsObjectType() && t.HasAttribute(key):
			v = v.GetAttr(key)
		case t.IsMapType() && v.HasIndex(cty.StringVal(key)).True():
			v = v.Index(cty.StringVal(key))
		case (t.IsListType() || t.IsTupleType()) && err == nil && i >= 0 && i < v.LengthInt():
			v = v.Index(cty.NumberIntVal(int64(i)))
		default:
			return false
		}
	}

	return len(keys) > 0
}
