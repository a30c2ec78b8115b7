package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
)

// ToGo converts a wholly known value without marks into map[string]any, []any, string, bool, nil, int64 for whole
// numbers that fit, and json.Number, exact, for the others. Marks and unknowns are errors with the path of the first.
func ToGo(v cty.Value) (any, error) { return toGo(v, nil) }

func toGo(v cty.Value, path cty.Path) (any, error) {
	t := v.Type()
	switch {
	case v.IsMarked():
		return nil, path.NewErrorf("a marked value (sensitive) cannot be used here")
	case !v.IsKnown():
		return nil, path.NewErrorf("the value is not known")
	case v.IsNull():
		return nil, nil
	case t == cty.String:
		return v.AsString(), nil
	case t == cty.Bool:
		return v.True(), nil
	case t == cty.Number:
		return goNumber(v.AsBigFloat(), path)
	case t.IsObjectType() || t.IsMapType():
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			g, err := toGo(e, path.Index(k))
			if err != nil {
				return nil, err
			}
			out[k.AsString()] = g
		}
		return out, nil
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			g, err := toGo(e, path.Index(k))
			if err != nil {
				return nil, err
			}
			out = append(out, g)
		}
		return out, nil
	}
	return nil, path.NewErrorf("a value of type %s cannot be used here", t.FriendlyName())
}

// isOutOfRange reports whether a number has too many digits before or after the point.
func isOutOfRange(f *big.Float) bool {
	exponent := f.MantExp(nil)

	return f.IsInf() || max(exponent, -exponent) > 4*maxExponent
}

func goNumber(f *big.Float, path cty.Path) (any, error) {
	if isOutOfRange(f) {
		return nil, path.NewErrorf("the number is out of range")
	}
	if i, acc := f.Int64(); acc == big.Exact {
		return i, nil
	}
	return json.Number(f.Text('f', -1)), nil
}

// FromGo is the way back: maps become objects, slices tuples, nil a null of no type. Strings that are not UTF-8 or
// hold the characters of placeholders are refused, as are numbers that are not finite.
func FromGo(v any) (cty.Value, error) { return fromGo(v, nil) }

func fromGo(v any, path cty.Path) (cty.Value, error) {
	switch v := v.(type) {
	case nil:
		return cty.NullVal(cty.DynamicPseudoType), nil
	case string:
		if err := checkString(v); err != nil {
			return cty.DynamicVal, path.NewError(err)
		}
		return cty.StringVal(v), nil
	case bool:
		return cty.BoolVal(v), nil
	case json.Number:
		n, err := parseNumber(string(v))
		if err != nil {
			return cty.DynamicVal, path.NewError(err)
		}
		return n, nil
	case int:
		return cty.NumberIntVal(int64(v)), nil
	case int64:
		return cty.NumberIntVal(v), nil
	case uint64:
		return cty.NumberUIntVal(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return cty.DynamicVal, path.NewErrorf("the number is not finite")
		}
		return parseNumber(strconv.FormatFloat(v, 'g', -1, 64)) // decimal: 0.1 is meant as 0.1
	case []any:
		return listFromGo(v, path)
	case map[string]any:
		return objectFromGo(v, path)
	}
	return cty.DynamicVal, path.NewErrorf("a Go value of type %T cannot be a value", v)
}

func listFromGo(list []any, path cty.Path) (cty.Value, error) {
	out := make([]cty.Value, len(list))
	for i := range list {
		element, err := fromGo(list[i], path.IndexInt(i))
		if err != nil {
			return cty.DynamicVal, err
		}
		out[i] = element
	}

	return cty.TupleVal(out), nil
}

func objectFromGo(object map[string]any, path cty.Path) (cty.Value, error) {
	out := make(map[string]cty.Value, len(object))
	for _, k := range slices.Sorted(maps.Keys(object)) {
		inner := path.IndexString(k)
		if err := checkString(k); err != nil {
			return cty.DynamicVal, inner.NewError(err)
		}
		element, err := fromGo(object[k], inner)
		if err != nil {
			return cty.DynamicVal, err
		}

		key := cty.NormalizeString(k) // cty would silently drop one of two equal keys
		if _, duplicate := out[key]; duplicate {
			return cty.DynamicVal, path.NewErrorf("two keys are the same Unicode text as %s", texts.QuoteShort(key))
		}
		out[key] = element
	}

	return cty.ObjectVal(out), nil
}

func checkString(s string) error {
	if secret.HasPlaceholder(s) {
		return errPlaceholderInput
	}
	if !utf8.ValidString(s) {
		return errors.New("the text is not UTF-8")
	}
	return nil
}

// FromJSONTyped parses JSON as type t, for facts and answers of a recording: missing attributes, and null collections
// and objects, become [value.Absent]; attributes that t does not have are ignored. At most 16 MiB and 64 levels.
func FromJSONTyped(raw []byte, t cty.Type) (cty.Value, error) {
	parsed, err := parseJSON(raw, 16*maxDocument)
	if err != nil {
		return cty.UnknownVal(t), err
	}

	v, err := typedFromGo(parsed, t, nil)
	if err != nil {
		return cty.UnknownVal(t), fmt.Errorf("%s: %w", PathOf(err), err)
	}

	return v, nil
}

// typedFromGo is FromJSONTyped for a parsed document. It looks at each element alone: cty compares the types of all
// pairs.
func typedFromGo(v any, t cty.Type, path cty.Path) (cty.Value, error) {
	isTyped := !t.HasDynamicTypes() // otherwise elements of a collection may get different types
	switch v := v.(type) {
	case nil:
		return value.Absent(t), nil
	case []any:
		if t.IsListType() && isTyped {
			return typedList(v, t.ElementType(), path)
		}
	case map[string]any:
		switch {
		case t.IsObjectType():
			return typedObject(v, t, path)
		case t.IsMapType() && isTyped:
			return typedMap(v, t.ElementType(), path)
		}
	}

	plain, err := fromGo(v, path)
	if err != nil {
		return cty.DynamicVal, err
	}
	converted, err := convert.Convert(plain, t)
	if err != nil {
		return cty.DynamicVal, path.NewError(err)
	}

	return converted, nil
}

func typedList(list []any, t cty.Type, path cty.Path) (cty.Value, error) {
	if len(list) == 0 {
		return cty.ListValEmpty(t), nil
	}

	out := make([]cty.Value, len(list))
	for i := range list {
		element, err := typedFromGo(list[i], t, path.IndexInt(i))
		if err != nil {
			return cty.DynamicVal, err
		}
		out[i] = element
	}

	return cty.ListVal(out), nil
}

func typedMap(object map[string]any, t cty.Type, path cty.Path) (cty.Value, error) {
	if len(object) == 0 {
		return cty.MapValEmpty(t), nil
	}

	out := make(map[string]cty.Value, len(object))
	for _, k := range slices.Sorted(maps.Keys(object)) {
		inner := path.IndexString(k)
		if err := checkString(k); err != nil {
			return cty.DynamicVal, inner.NewError(err)
		}
		element, err := typedFromGo(object[k], t, inner)
		if err != nil {
			return cty.DynamicVal, err
		}
		out[cty.NormalizeString(k)] = element
	}

	return cty.MapVal(out), nil
}

func typedObject(object map[string]any, t cty.Type, path cty.Path) (cty.Value, error) {
	attributes := t.AttributeTypes()
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if _, isKnown := attributes[k]; !isKnown { // ignored, but it must be a valid value
			ignored := map[string]any{k: object[k]}
			if _, err := objectFromGo(ignored, path); err != nil {
				return cty.DynamicVal, err
			}
		}
	}

	out := make(map[string]cty.Value, len(attributes))
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		attribute, err := typedFromGo(object[name], attributes[name], path.GetAttr(name))
		if err != nil {
			return cty.DynamicVal, err
		}
		out[name] = attribute
	}

	return cty.ObjectVal(out), nil
}

// PathOf returns the place of an error of this package, as in a site: .gpus[0].name; "." is the whole value.
func PathOf(err error) string {
	var at cty.PathError
	if !errors.As(err, &at) || len(at.Path) == 0 {
		return "."
	}

	return value.FormatPath(at.Path)
}
