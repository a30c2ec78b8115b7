package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Summaries of problems that prelet reports with codes of their own.
const (
	UnknownAttribute = "no such attribute"
	MissingAttribute = "required, but not set"
)

// Config checks a configuration against its declarations and completes it: each declared attribute is in the result,
// with its default or nil. A number may have any of Go's number types or json.Number and becomes float64. The given
// configuration is not changed.
//
// An optional object that is missing is nil: the defaults of its attributes are not set.
func Config(declared []Attribute, config map[string]any) (map[string]any, Problems) {
	var c checker
	out := c.object("", declared, config, true)

	return out, c.problems
}

// object checks and completes an object. In a configuration, required attributes must be set.
func (c *checker) object(
	path string,
	declared []Attribute,
	v map[string]any,
	isConfig bool,
) map[string]any {
	var names []string
	out := make(map[string]any, len(declared))
	for _, a := range declared {
		names = append(names, a.Name)
		at := attribute(path, a.Name)
		given := v[a.Name]
		switch {
		case given != nil:
			out[a.Name] = c.value(at, a, given, isConfig)
		case isConfig && a.Required:
			c.add(at, MissingAttribute, fmt.Sprintf("Its type is %s: %s", a.Type, a.Doc))
			out[a.Name] = nil
		default:
			out[a.Name] = Clone(a.Default)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !slices.Contains(names, name) {
			c.add(attribute(path, name), UnknownAttribute, suggestName(name, names))
		}
	}

	return out
}

// suggestName returns the nearest valid name, or all of them, as a sentence.
func suggestName(name string, valid []string) string {
	if near := nearest(name, valid); near != "" {
		return near
	}
	if len(valid) == 0 {
		return "No attribute is allowed here."
	}

	return "Valid attributes: " + strings.Join(valid, ", ") + "."
}

// value checks a value and returns it with the contract's types. Nil fits every type.
func (c *checker) value(path string, a Attribute, v any, isConfig bool) any {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if a.Type.Kind == String {
			return c.stringValue(path, a, v, isConfig)
		}
	case bool:
		if a.Type.Kind == Bool {
			c.countScalar(path)
			return v
		}
	case []any:
		if a.Type.Kind == List && a.Type.Element != nil {
			return c.listValue(path, a, v, isConfig)
		}
	case map[string]any:
		if a.Type.Kind == Map && a.Type.Element != nil {
			return c.mapValue(path, a, v, isConfig)
		}
		if a.Type.Kind == Object {
			return c.object(path, a.Type.Attributes, v, isConfig)
		}
	default:
		if f, isNumber := toNumber(v); isNumber && a.Type.Kind == Number {
			return c.numberValue(path, a, f)
		}
	}
	detail := fmt.Sprintf("got %s, want %s.", describeKind(v), a.Type)
	c.add(path, "wrong type", detail)

	return nil
}

func (c *checker) stringValue(path string, a Attribute, s string, isConfig bool) string {
	c.countScalar(path)
	if !isConfig {
		c.text(path, s)
	} else if len(s) > MaxText {
		detail := fmt.Sprintf("%d bytes; at most %d.", len(s), MaxText)
		c.add(path, "too long", detail)
	}
	if len(a.OneOf) > 0 && !slices.Contains(a.OneOf, s) {
		detail := "Valid values: " + strings.Join(a.OneOf, ", ") + ". " + nearest(s, a.OneOf)
		c.add(path, fmt.Sprintf("invalid value %q", s), detail)
	}

	return s
}

func (c *checker) numberValue(path string, a Attribute, f float64) float64 {
	c.countScalar(path)
	unit := strings.TrimSuffix(" "+a.Unit, " ")
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		c.add(path, "not a finite number", "")
	case a.Minimum != nil && f < *a.Minimum:
		c.add(
			path,
			fmt.Sprintf("%v is too small", f),
			fmt.Sprintf("At least %v%s.", *a.Minimum, unit),
		)
	case a.Maximum != nil && f > *a.Maximum:
		c.add(
			path,
			fmt.Sprintf("%v is too large", f),
			fmt.Sprintf("At most %v%s.", *a.Maximum, unit),
		)
	}

	return f
}

// elementOf returns the declaration of the elements of a list or map: its restrictions are for them.
func elementOf(a Attribute) Attribute {
	return Attribute{
		Type:    *a.Type.Element,
		OneOf:   a.OneOf,
		Minimum: a.Minimum,
		Maximum: a.Maximum,
		Unit:    a.Unit,
	}
}

func (c *checker) listValue(path string, a Attribute, list []any, isConfig bool) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = c.value(element(path, i), elementOf(a), v, isConfig)
	}

	return out
}

func (c *checker) mapValue(
	path string,
	a Attribute,
	m map[string]any,
	isConfig bool,
) map[string]any {
	out := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if len(k) > MaxText || !isPrintable(k) {
			c.text(path, k)
			continue
		}
		at := key(path, k)
		out[k] = c.value(at, elementOf(a), m[k], isConfig)
	}

	return out
}

// countScalar limits the number of scalars: many small values use as much memory as a large one.
func (c *checker) countScalar(path string) {
	c.scalars++
	if c.scalars == MaxValues+1 {
		c.add(
			path,
			"too many values",
			fmt.Sprintf("At most %d, nested values included.", MaxValues),
		)
	}
}

func toNumber(v any) (f float64, isNumber bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}

	return 0, false
}

func describeKind(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	if _, isNumber := toNumber(v); isNumber {
		return "number"
	}

	return fmt.Sprintf("%T", v)
}

// Clone returns a deep copy of a value.
func Clone(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Clone(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = Clone(v[k])
		}
		return out
	}

	return v
}
