package inside

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// checkFinite refuses a number that JSON does not have: NaN or an infinity. The error names its place, by the names of JSON.
func checkFinite(what string, v any) error {
	if path, f, found := notFinite("", reflect.ValueOf(v)); found {
		return fmt.Errorf("%s has a number that is not finite: %s is %v", what, strings.TrimPrefix(path, "."), f)
	}

	return nil
}

// notFinite returns the first number in a value that is not finite, and its place.
func notFinite(path string, v reflect.Value) (at string, f float64, found bool) {
	switch v.Kind() {
	case reflect.Float64:
		f = v.Float()
		return path, f, math.IsNaN(f) || math.IsInf(f, 0)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(path, v.Elem())
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && !found; i++ {
			at, f, found = notFinite(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		for entries := v.MapRange(); !found && entries.Next(); {
			at, f, found = notFinite(fmt.Sprintf("%s[%.63q]", path, entries.Key()), entries.Value())
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && !found; i++ {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			at, f, found = notFinite(path+"."+name, v.Field(i))
		}
	}

	return at, f, found
}
