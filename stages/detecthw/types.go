package detecthw

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

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
