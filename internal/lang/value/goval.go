package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// ToGo turns a wholly known value without marks into map[string]any, []any, string, bool, nil, int64 for whole
// numbers that fit, and json.Number, exact, for the others. Marks and unknowns are errors with the path of the first.
func ToGo(v cty.Value) (any, error) { return toGo(v, nil) }

func toGo(v cty.Value, path cty.Path) (any, error) {
	t := v.Type()
	switch {
	case v.IsMarked():
		return nil, path.NewErrorf("a marked value (sensitive or unread) cannot be used here")
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

func goNumber(f *big.Float, path cty.Path) (any, error) {
	if f.IsInf() || f.Sign() != 0 && (f.MantExp(nil) > 4*maxExponent || f.MantExp(nil) < -4*maxExponent) {
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
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return fromGo(out, path)
	case []any:
		out := make([]cty.Value, len(v))
		for i := range v {
			e, err := fromGo(v[i], path.IndexInt(i))
			if err != nil {
				return cty.DynamicVal, err
			}
			out[i] = e
		}
		return cty.TupleVal(out), nil
	case map[string]string:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = v[k]
		}
		return fromGo(out, path)
	case map[string]any:
		out := make(map[string]cty.Value, len(v))
		for k := range v {
			if err := checkString(k); err != nil {
				return cty.DynamicVal, path.NewError(err)
			}
			e, err := fromGo(v[k], path.IndexString(k))
			if err != nil {
				return cty.DynamicVal, err
			}
			// cty normalizes keys; two that become one would silently drop a value.
			nk := cty.NormalizeString(k)
			if _, dup := out[nk]; dup {
				return cty.DynamicVal, path.NewErrorf("two keys are the same Unicode text as %s", quoteShort(nk))
			}
			out[nk] = e
		}
		return cty.ObjectVal(out), nil
	}
	return cty.DynamicVal, path.NewErrorf("a Go value of type %T cannot be a value", v)
}

func checkString(s string) error {
	if HasPlaceholder(s) {
		return errPlaceholderInput
	}
	if !utf8.ValidString(s) {
		return errors.New("the text is not UTF-8")
	}
	return nil
}

// FromJSONTyped reads JSON into type t, as facts and answers of a recording come: attributes that are missing, and
// nulls of collections and objects, become [Absent]; attributes that t does not have are ignored. At most 16 MiB and
// 64 levels.
func FromJSONTyped(raw []byte, t cty.Type) (cty.Value, error) {
	v, err := parseJSON(raw, 16*maxDocument)
	if err != nil {
		return cty.UnknownVal(t), err
	}
	out, err := typed(v, t, nil)
	if err != nil {
		return cty.UnknownVal(t), fmt.Errorf("%s: %w", FormatPath(err), err)
	}
	return out, nil
}

func typed(v any, t cty.Type, path cty.Path) (cty.Value, error) {
	if v == nil {
		return Absent(t), nil
	}
	switch {
	case t.IsObjectType():
		m, ok := v.(map[string]any)
		if !ok {
			return cty.DynamicVal, path.NewErrorf("an object is needed")
		}
		out := make(map[string]cty.Value, len(t.AttributeTypes()))
		for name, at := range t.AttributeTypes() {
			e, err := typed(m[name], at, path.GetAttr(name))
			if err != nil {
				return cty.DynamicVal, err
			}
			out[name] = e
		}
		return cty.ObjectVal(out), nil
	case t.IsMapType():
		m, ok := v.(map[string]any)
		if !ok {
			return cty.DynamicVal, path.NewErrorf("a map is needed")
		}
		if len(m) == 0 {
			return cty.MapValEmpty(t.ElementType()), nil
		}
		out := make(map[string]cty.Value, len(m))
		for k := range m {
			if err := checkString(k); err != nil {
				return cty.DynamicVal, path.IndexString(k).NewError(err)
			}
			e, err := typed(m[k], t.ElementType(), path.IndexString(k))
			if err != nil {
				return cty.DynamicVal, err
			}
			out[k] = e
		}
		if !cty.CanMapVal(out) {
			return cty.DynamicVal, path.NewErrorf("the elements have different types")
		}
		return cty.MapVal(out), nil
	case t.IsListType() || t.IsSetType():
		s, ok := v.([]any)
		if !ok {
			return cty.DynamicVal, path.NewErrorf("a list is needed")
		}
		if len(s) == 0 {
			return Absent(t), nil
		}
		out := make([]cty.Value, len(s))
		for i := range s {
			e, err := typed(s[i], t.ElementType(), path.IndexInt(i))
			if err != nil {
				return cty.DynamicVal, err
			}
			out[i] = e
		}
		if !cty.CanListVal(out) {
			return cty.DynamicVal, path.NewErrorf("the elements have different types")
		}
		if t.IsSetType() {
			return cty.SetVal(out), nil
		}
		return cty.ListVal(out), nil
	}
	u, err := fromGo(v, path)
	if err != nil {
		return cty.DynamicVal, err
	}
	c, err := convert.Convert(u, t)
	if err != nil {
		return cty.DynamicVal, path.NewErrorf("%s is needed, not %s", t.FriendlyName(), u.Type().FriendlyName())
	}
	return c, nil
}

// FormatPath is the place that an error of this package speaks of, as in a site: .gpus[0].name; "." is the top.
func FormatPath(err error) string {
	var pe cty.PathError
	if !errors.As(err, &pe) || len(pe.Path) == 0 {
		return "."
	}
	out := ""
	for _, step := range pe.Path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			out += "." + step.Name
		case cty.IndexStep:
			switch k := step.Key; {
			case !k.IsKnown() || k.IsMarked():
				out += "[…]"
			case k.Type() == cty.String:
				out += "[" + strconv.Quote(k.AsString()) + "]"
			case k.Type() == cty.Number:
				out += "[" + k.AsBigFloat().Text('f', -1) + "]"
			default:
				out += "[…]"
			}
		}
	}
	return out
}
