package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Config checks a configuration against what a description declares, and completes it: every declared attribute is
// there, with its default or nil. Numbers may be any of Go's or a json.Number, and become float64. What is given is not
// changed.
//
// An optional object that is absent gets no defaults of its attributes: it is nil, as the site wrote nothing.
func Config(declared []Attribute, config map[string]any) (map[string]any, Problems) {
	var c checker
	out := c.object("", declared, config, true)
	return out, c.problems
}

// Value checks one value against a type: a fact, or what stands in a configuration. Nil fits every type.
func Value(path string, t Type, v any) (any, Problems) {
	var c checker
	out := c.value(path, Attribute{Type: t}, v, false)
	return out, c.problems
}

// checker walks a value. Strict is of configurations: what is required must be there, and defaults are filled in.
type checker struct {
	problems Problems
	scalars  int
}

func (c *checker) add(path, summary, detail string, args ...any) {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	const most = 500 // what is wrong may be as long as a whole answer
	c.problems = append(c.problems, Problem{path, shorten(summary, most), shorten(detail, most)})
}

// isFull tells whether enough is wrong: the rest of what is refused anyway is not looked at.
func (c *checker) isFull() bool { return len(c.problems) >= MaxNotes }

func (c *checker) object(path string, declared []Attribute, v map[string]any, strict bool) map[string]any {
	names := make([]string, len(declared))
	out := make(map[string]any, len(declared))
	for i, a := range declared {
		names[i] = a.Name
		p := attribute(path, a.Name)
		given, ok := v[a.Name]
		switch {
		case ok && given != nil:
			out[a.Name] = c.value(p, a, given, strict)
		case strict && a.Required:
			c.add(p, "required, but not set", "It is a %s: %s", a.Type, a.Doc)
			out[a.Name] = nil
		default:
			out[a.Name] = Clone(a.Default)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if slices.Contains(names, name) {
			continue
		}
		detail := nearest(name, names)
		if detail == "" {
			detail = "There is: " + strings.Join(names, ", ") + "."
			if len(names) == 0 {
				detail = "There is none at all here."
			}
		}
		c.add(attribute(path, name), "no such attribute", detail)
	}
	return out
}

func (c *checker) value(path string, a Attribute, v any, strict bool) any {
	if v == nil {
		return nil
	}
	wrong := func() any {
		c.add(path, "wrong type", "It is a %s, and must be a %s.", kindOf(v), a.Type)
		return nil
	}
	switch a.Type.Kind {
	case String:
		s, ok := v.(string)
		if !ok {
			return wrong()
		}
		c.scalar(path)
		if strict && len(s) > MaxText {
			c.add(path, "too long", "It has %d bytes; %d are allowed.", len(s), MaxText)
		} else if !strict {
			c.text(path, s)
		}
		if len(a.OneOf) > 0 && !slices.Contains(a.OneOf, s) {
			c.add(path, fmt.Sprintf("%q is not allowed here", s), "One of %s. %s", strings.Join(a.OneOf, ", "), nearest(s, a.OneOf))
		}
		return s
	case Number:
		f, ok := number(v)
		if !ok {
			return wrong()
		}
		c.scalar(path)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			c.add(path, "not a finite number", "")
		}
		if a.Minimum != nil && f < *a.Minimum {
			c.add(path, fmt.Sprintf("%v is too small", f), "At least %v%s.", *a.Minimum, unit(a))
		}
		if a.Maximum != nil && f > *a.Maximum {
			c.add(path, fmt.Sprintf("%v is too large", f), "At most %v%s.", *a.Maximum, unit(a))
		}
		return f
	case Bool:
		if _, ok := v.(bool); !ok {
			return wrong()
		}
		c.scalar(path)
		return v
	case List:
		l, ok := v.([]any)
		if !ok || a.Type.Element == nil {
			return wrong()
		}
		out := make([]any, len(l))
		for i, e := range l {
			out[i] = c.value(element(path, i), Attribute{Type: *a.Type.Element, OneOf: a.OneOf, Minimum: a.Minimum, Maximum: a.Maximum, Unit: a.Unit}, e, strict)
		}
		return out
	case Map:
		m, ok := v.(map[string]any)
		if !ok || a.Type.Element == nil {
			return wrong()
		}
		out := make(map[string]any, len(m))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if len(k) > MaxText || !printable(k) {
				c.add(path, "a key is not a text of one line", "At most %d bytes of UTF-8, without control characters.", MaxText)
				continue
			}
			out[k] = c.value(key(path, k), Attribute{Type: *a.Type.Element, OneOf: a.OneOf, Minimum: a.Minimum, Maximum: a.Maximum, Unit: a.Unit}, m[k], strict)
		}
		return out
	case Object:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong()
		}
		return c.object(path, a.Type.Attributes, m, strict)
	}
	return wrong()
}

// scalar counts: a value of many small parts is as costly as a large one.
func (c *checker) scalar(path string) {
	if c.scalars++; c.scalars == MaxValues+1 {
		c.add(path, "too many values", "At most %d, all nested ones counted.", MaxValues)
	}
}

func unit(a Attribute) string {
	if a.Unit == "" {
		return ""
	}
	return " " + a.Unit
}

func number(v any) (float64, bool) {
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

func kindOf(v any) Kind {
	switch v.(type) {
	case string:
		return String
	case bool:
		return Bool
	case []any:
		return List
	case map[string]any:
		return Object
	}
	if _, ok := number(v); ok {
		return Number
	}
	return Kind(fmt.Sprintf("%T", v))
}

// Clone copies a value, so that who gets it may change it.
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
