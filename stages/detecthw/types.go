package detecthw

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
)

// shape is a type of the facts, and how it is in sites: the same names, pointers as nullable attributes.
type shape struct {
	cty.Type
	fields []field // of a struct
	inner  *shape  // of a pointer, and of the elements of a list or map
}

type field struct {
	*shape
	name      string
	omitEmpty bool
}

// factsShape is the shape of tape.Facts. It is made once, because reflection takes longer than making a value.
var factsShape = sync.OnceValue(func() *shape { return shapeOf(reflect.TypeFor[tape.Facts]()) })

// factsType returns the type of tape.Facts in sites.
func factsType() cty.Type { return factsShape().Type }

func shapeOf(t reflect.Type) *shape {
	s := &shape{Type: cty.Number}
	switch t.Kind() {
	case reflect.Pointer:
		s.inner = shapeOf(t.Elem())
		s.Type = s.inner.Type
	case reflect.Slice:
		s.inner = shapeOf(t.Elem())
		s.Type = cty.List(s.inner.Type)
	case reflect.Map:
		s.inner = shapeOf(t.Elem())
		s.Type = cty.Map(s.inner.Type)
	case reflect.String:
		s.Type = cty.String
	case reflect.Bool:
		s.Type = cty.Bool
	case reflect.Struct:
		attributes := map[string]cty.Type{}
		for i := range t.NumField() {
			name, option, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			one := field{shapeOf(t.Field(i).Type), name, option == "omitempty"}
			s.fields = append(s.fields, one)
			attributes[name] = one.Type
		}
		s.Type = cty.Object(attributes)
	}

	return s
}

// factsValue returns facts as a value of factsType: the value that a site would get from their JSON. An error begins
// with the place of the fact, as in a site. before are the facts of another machine, nil for none: the value shares
// the parts that are the same.
func factsValue(f tape.Facts, before *madeFacts) (cty.Value, error) {
	return factsShape().objectOf(reflect.ValueOf(f), before)
}

// madeFacts are facts with the value that was made of them. Nothing changes the facts afterwards.
type madeFacts struct {
	facts tape.Facts
	value cty.Value
}

// valueOf returns a part of the facts as a value of this shape. nil and an empty list or map are value.Absent.
func (s *shape) valueOf(v reflect.Value) (cty.Value, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return s.inner.valueOf(v.Elem())
		}
	case reflect.Slice:
		if v.Len() > 0 {
			return s.listOf(v)
		}
	case reflect.Map:
		if v.Len() > 0 {
			return s.mapOf(v)
		}
	case reflect.Struct:
		return s.objectOf(v, nil)
	default:
		return scalarOf(v)
	}

	return value.Absent(s.Type), nil
}

func (s *shape) listOf(v reflect.Value) (cty.Value, error) {
	out := make([]cty.Value, v.Len())
	for i := range out {
		element, err := s.inner.valueOf(v.Index(i))
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("[%d]%w", i, err)
		}
		out[i] = element
	}

	return cty.ListVal(out), nil
}

func (s *shape) mapOf(v reflect.Value) (cty.Value, error) {
	keys := v.MapKeys()
	slices.SortStableFunc(keys, func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})

	out := make(map[string]cty.Value, len(keys))
	for _, k := range keys {
		_, err := scalarOf(k)
		var element cty.Value
		if err == nil {
			element, err = s.inner.valueOf(v.MapIndex(k))
		}
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("[%q]%w", k.String(), err)
		}
		out[cty.NormalizeString(k.String())] = element
	}

	return cty.MapVal(out), nil
}

func (s *shape) objectOf(v reflect.Value, before *madeFacts) (cty.Value, error) {
	out := make(map[string]cty.Value, len(s.fields))
	for i, f := range s.fields {
		isSame := before != nil &&
			reflect.DeepEqual(v.Field(i).Interface(), reflect.ValueOf(before.facts).Field(i).Interface())
		if isSame {
			out[f.name] = before.value.GetAttr(f.name)
			continue
		}
		if f.omitEmpty && v.Field(i).IsZero() {
			out[f.name] = value.Absent(f.Type)
			continue
		}
		attribute, err := f.valueOf(v.Field(i))
		if err != nil {
			return cty.DynamicVal, fmt.Errorf(".%s%w", f.name, err)
		}
		out[f.name] = attribute
	}

	return cty.ObjectVal(out), nil
}

// numberPrecision is the precision of numbers in a site, in bits. Quotients of facts depend on it.
const numberPrecision = 512

// scalarOf returns a text, a bool or a number.
func scalarOf(v reflect.Value) (cty.Value, error) {
	if v.CanInt() {
		return cty.NumberVal(new(big.Float).SetPrec(numberPrecision).SetInt64(v.Int())), nil
	}
	out, err := codec.FromGo(v.Interface())
	if err != nil {
		return cty.DynamicVal, fmt.Errorf(": %w", err)
	}

	return out, nil
}

// withhold makes the parts of an answer that a recording leaves out unknown instead of null. what names the question,
// and pointers are JSON pointers into the answer. A pointer to a part without a type is an error.
func withhold(v cty.Value, what string, pointers []string) (cty.Value, error) {
	hidden := parts{}
	for _, p := range pointers {
		keys := tape.SplitPointer(p)
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
		case inner == nil: // a part that contains it is hidden
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
