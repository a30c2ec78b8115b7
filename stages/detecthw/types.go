package detecthw

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// factsType returns the type of world.Facts in sites: the same names, pointers as nullable attributes.
func factsType() cty.Type {
	return typeOf(reflect.TypeFor[world.Facts]())
}

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

// factsValue returns facts as a value of factsType: the value that a site would get from their JSON. An error begins
// with the place of the fact, as in a site.
func factsValue(f world.Facts) (cty.Value, error) {
	return valueOf(reflect.ValueOf(f))
}

// valueOf returns a part of the facts as a value of its typeOf. nil and an empty list or map are value.Absent.
func valueOf(v reflect.Value) (cty.Value, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return valueOf(v.Elem())
		}
	case reflect.Slice:
		if v.Len() > 0 {
			return listOf(v)
		}
	case reflect.Map:
		if v.Len() > 0 {
			return mapOf(v)
		}
	case reflect.Struct:
		return objectOf(v)
	default:
		return scalarOf(v)
	}

	return value.Absent(typeOf(v.Type())), nil
}

func listOf(v reflect.Value) (cty.Value, error) {
	out := make([]cty.Value, v.Len())
	for i := range out {
		element, err := valueOf(v.Index(i))
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("[%d]%w", i, err)
		}
		out[i] = element
	}

	return cty.ListVal(out), nil
}

func mapOf(v reflect.Value) (cty.Value, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})

	out := make(map[string]cty.Value, len(keys))
	for _, k := range keys {
		_, err := scalarOf(k)
		var element cty.Value
		if err == nil {
			element, err = valueOf(v.MapIndex(k))
		}
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("[%q]%w", k.String(), err)
		}
		out[cty.NormalizeString(k.String())] = element
	}

	return cty.MapVal(out), nil
}

func objectOf(v reflect.Value) (cty.Value, error) {
	t := v.Type()
	out := make(map[string]cty.Value, t.NumField())
	for i := range t.NumField() {
		name, option, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if option == "omitempty" && v.Field(i).IsZero() {
			out[name] = value.Absent(typeOf(t.Field(i).Type))
			continue
		}
		attribute, err := valueOf(v.Field(i))
		if err != nil {
			return cty.DynamicVal, fmt.Errorf(".%s%w", name, err)
		}
		out[name] = attribute
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
	for _, p := range pointers {
		keys := strings.Split(strings.TrimPrefix(p, "/"), "/")
		found := false

		w, err := cty.Transform(v, func(path cty.Path, x cty.Value) (cty.Value, error) {
			if !matchesPointer(path, keys) {
				return x, nil
			}
			found = true

			return cty.UnknownVal(x.Type()), nil
		})
		if err != nil {
			return v, err
		}
		if !found {
			return v, fmt.Errorf(
				"it withholds %s %s, which this prelet does not know: "+
					"a newer prelet made the recording, or it was changed; "+
					"use the prelet that made it, or record again",
				what,
				p,
			)
		}
		v = w
	}

	return v, nil
}

func matchesPointer(path cty.Path, keys []string) bool {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")

	return slices.EqualFunc(path, keys, func(step cty.PathStep, key string) bool {
		return stepName(step) == unescape.Replace(key)
	})
}

// stepName returns a step of a path as JSON pointers write it.
func stepName(step cty.PathStep) string {
	if attr, ok := step.(cty.GetAttrStep); ok {
		return attr.Name
	}

	key := step.(cty.IndexStep).Key
	if key.Type() == cty.Number {
		return key.AsBigFloat().Text('f', -1)
	}

	return key.AsString()
}
