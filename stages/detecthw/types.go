package detecthw

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
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

// factsShape is that of world.Facts. It is made once: with reflection that takes longer than to make a value of it.
var factsShape = sync.OnceValue(func() *shape { return shapeOf(reflect.TypeFor[world.Facts]()) })

// factsType returns the type of world.Facts in sites.
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
// with the place of the fact, as in a site.
func factsValue(f world.Facts) (cty.Value, error) {
	return factsShape().valueOf(reflect.ValueOf(f))
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
		return s.objectOf(v)
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

func (s *shape) objectOf(v reflect.Value) (cty.Value, error) {
	out := make(map[string]cty.Value, len(s.fields))
	for i, f := range s.fields {
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

// numberPrecision is that of numbers in a site, in bits. Quotients of facts depend on it.
const numberPrecision = 512

// scalarOf returns a text, a bool or a number.
func scalarOf(v reflect.Value) (cty.Value, error) {
	if v.CanInt() {
		return cty.NumberVal(new(big.Float).SetPrec(numberPrecision).SetInt64(v.Int())), nil
	}
	out, err := value.FromGo(v.Interface())
	if err != nil {
		return cty.DynamicVal, fmt.Errorf(": %w", err)
	}

	return out, nil
}

// withhold makes the parts of an answer that a recording leaves out unknown instead of null. what names the question,
// and pointers are JSON pointers into the answer. A pointer to a part without a type is an error.
func withhold(v cty.Value, what string, pointers []string) (cty.Value, error) {
	if len(pointers) == 0 {
		return v, nil
	}

	isFound := map[string]bool{}
	for _, p := range pointers {
		isFound[p] = false
	}
	out, err := cty.Transform(v, func(path cty.Path, part cty.Value) (cty.Value, error) {
		p := pointerTo(path)
		if _, isWithheld := isFound[p]; !isWithheld || p == "" {
			return part, nil
		}
		isFound[p] = true

		return cty.UnknownVal(part.Type()), nil
	})
	for _, p := range pointers {
		if !isFound[p] {
			return v, fmt.Errorf(
				"it withholds %s %s, which this prelet does not know: "+
					"a newer prelet made the recording, or it was changed; "+
					"use the prelet that made it, or record again",
				what,
				p,
			)
		}
	}

	return out, err
}

// pointerTo returns the JSON pointer to a part of an answer.
func pointerTo(path cty.Path) string {
	var keys []string
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			keys = append(keys, step.Name)
		case cty.IndexStep:
			key, _ := convert.Convert(step.Key, cty.String) // a text, or a number
			keys = append(keys, key.AsString())
		}
	}

	return world.Pointer(keys...)
}
