package world

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// encode writes what json.Marshal would, byte by byte. That prepares an encoder for each type before it writes the first value of
// it, and a run writes one value of each of its some eighty types: the preparation was most of the time. What is not as simple as
// most types here are is left to it.
func encode(v any) ([]byte, error) {
	e := encoder{fields: map[reflect.Type][]field{}}
	return e.value(nil, reflect.ValueOf(v))
}

type encoder struct {
	fields map[reflect.Type][]field // of a struct; nil: left to json.Marshal
}

type field struct {
	index     int
	key       string // "name":
	omitEmpty bool
	within    []field // of an embedded struct, whose fields stand among the others
}

func (e encoder) value(b []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return append(b, "null"...), nil
	}
	t := v.Type()
	k := t.Kind()
	if (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) && v.IsNil() {
		return append(b, "null"...), nil
	}
	if t.Name() != "" && t.PkgPath() != "" && writesItself(t) {
		return leave(b, v)
	}
	switch k {
	case reflect.Pointer:
		return e.value(b, v.Elem())
	case reflect.String:
		return text(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return e.list(b, v)
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Key().PkgPath() == "" {
			return e.object(b, v)
		}
	case reflect.Struct:
		fields, ok := e.fields[t]
		if !ok {
			fields = fieldsOf(t)
			e.fields[t] = fields
		}
		if fields != nil {
			b, err := e.members(append(b, '{'), v, fields)
			return append(b, '}'), err
		}
	}
	return leave(b, v)
}

// writesItself tells of a type with methods of its own for JSON, by value or by pointer. Of a pointer to it that is the same question.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.NumMethod() > 0 && (p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]()))
}

func leave(b []byte, v reflect.Value) ([]byte, error) {
	raw, err := json.Marshal(v.Interface())
	return append(b, raw...), err
}

// text quotes what needs no escape.
func text(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, err := json.Marshal(s)
			return append(b, raw...), err
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

func (e encoder) list(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = e.value(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func (e encoder) object(b []byte, v reflect.Value) (_ []byte, err error) {
	byName, names := make(map[string]reflect.Value, v.Len()), make([]string, 0, v.Len())
	for k, x := range v.Seq2() {
		byName[k.String()] = x
		names = append(names, k.String())
	}
	b = append(b, '{')
	sort.Strings(names)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = text(b, name); err != nil {
			return b, err
		}
		if b, err = e.value(append(b, ':'), byName[name]); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func (e encoder) members(b []byte, v reflect.Value, fields []field) (_ []byte, err error) {
	for _, f := range fields {
		x := v.Field(f.index)
		if f.within != nil {
			if b, err = e.members(b, x, f.within); err != nil {
				return b, err
			}
			continue
		}
		if f.omitEmpty && isEmpty(x) {
			continue
		}
		if !bytes.HasSuffix(b, []byte("{")) {
			b = append(b, ',')
		}
		if b, err = e.value(append(b, f.key...), x); err != nil {
			return b, err
		}
	}
	return b, nil
}

// isEmpty is what omitempty means by it.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// fieldsOf reads a struct's tags; nil if there is more in them than a name and omitempty.
func fieldsOf(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "", !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "" && options == "" && f.Type.Kind() == reflect.Struct && !writesItself(f.Type):
			within := fieldsOf(f.Type)
			if within == nil {
				return nil
			}
			out = append(out, field{index: i, within: within})
			continue
		case f.Anonymous, options != "" && options != "omitempty", !plainTag(name):
			return nil
		}
		out = append(out, field{index: i, key: `"` + name + `":`, omitEmpty: options == "omitempty"})
	}
	if repeated(out, map[string]bool{}) { // one hides the other, by rules of their own
		return nil
	}
	return out
}

func repeated(fields []field, seen map[string]bool) bool {
	for _, f := range fields {
		if seen[f.key] || repeated(f.within, seen) {
			return true
		}
		seen[f.key] = f.within == nil
	}
	return false
}

func plainTag(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
