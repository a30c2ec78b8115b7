package detecthw

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// factsType is world.Facts as sites see it: the same names, pointers as nullable attributes.
func factsType() cty.Type { return typeOf(reflect.TypeFor[world.Facts]()) }

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
		m := map[string]cty.Type{}
		for i := range t.NumField() {
			m[fieldName(t.Field(i))] = typeOf(t.Field(i).Type)
		}
		return cty.Object(m)
	}
	return cty.Number
}

// factsValue returns facts as sites see them, of type factsType.
func factsValue(f world.Facts) (cty.Value, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return cty.DynamicVal, err
	}

	return value.FromJSONTyped(raw, factsType())
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// withhold makes what a recording left out of an answer unknown, so that nobody takes it for null. What names the question.
// It is an error if a pointer leads to nothing that this prelet has a type for.
func withhold(v cty.Value, what string, pointers []string) (cty.Value, error) {
	for _, p := range pointers {
		keys := strings.Split(strings.TrimPrefix(p, "/"), "/")
		found := false
		w, err := cty.Transform(v, func(path cty.Path, x cty.Value) (cty.Value, error) {
			if matches(path, keys) {
				found = true
				return value.UnreadVal(x.Type(), what+" "+p), nil
			}
			return x, nil
		})
		if err != nil {
			return v, err
		}
		if !found {
			return v, fmt.Errorf("it withholds %s %s, which this prelet does not know: a newer prelet made the recording, or "+
				"it was changed; use the prelet that made it, or record again", what, p)
		}
		v = w
	}
	return v, nil
}

func matches(path cty.Path, keys []string) bool {
	if len(path) != len(keys) {
		return false
	}
	for i, st := range path {
		want := strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[i])
		switch st := st.(type) {
		case cty.GetAttrStep:
			if st.Name != want {
				return false
			}
		case cty.IndexStep:
			if st.Key.Type() == cty.String && st.Key.AsString() != want {
				return false
			}
			if st.Key.Type() == cty.Number && st.Key.AsBigFloat().Text('f', -1) != want {
				return false
			}
		}
	}
	return true
}
