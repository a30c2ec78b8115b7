package detecthw

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
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

// factsValue returns facts as a value of factsType.
func factsValue(f world.Facts) (cty.Value, error) {
	return value.FromStruct(f, factsType())
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

			return value.UnreadVal(x.Type(), what+" "+p), nil
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
