package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// Declaration is an attribute of a configuration, or a fact: an Attr or a Fact.
type Declaration interface {
	// Declare returns the contract's form. It panics if T cannot be declared; Serve and every test with package
	// detectortest find that at once.
	Declare() contract.Attribute
}

// Config is a configuration. An Attr reads it.
type Config map[string]any

// Attr declares an attribute of `config {}` and reads it.
//
// T is a string, bool, number, a slice or map[string] of such, or a struct, which sites write as an object. The fields
// of a struct need a tag json with their name, and can have the tags doc, unit, one_of (separated by commas) and
// required:"true". A pointer is nil if the site does not set it.
type Attr[T any] struct {
	Name     string
	Doc      string // one sentence
	Required bool
	Default  *T // if the site does not set it: new("eth0")
	Unit     string
	OneOf    []string // valid strings
	Minimum  *float64 // numbers only
	Maximum  *float64
}

// Declare implements Declaration.
func (a Attr[T]) Declare() contract.Attribute {
	out := contract.Attribute{
		Name:     a.Name,
		Type:     typeOf(reflect.TypeFor[T](), 0),
		Doc:      a.Doc,
		Required: a.Required,
		Unit:     a.Unit,
		OneOf:    a.OneOf,
		Minimum:  a.Minimum,
		Maximum:  a.Maximum,
	}
	if a.Default != nil {
		out.Default = toValue(*a.Default)
	}

	return out
}

// Of returns the site's value, or the default, or zero.
func (a Attr[T]) Of(c Config) T {
	v, _ := a.Lookup(c)
	return v
}

// Lookup returns the value of the argument in a configuration; false if it is not set and has no default. A value of
// another type ends the call of the detector with a problem of the configuration.
func (a Attr[T]) Lookup(c Config) (T, bool) {
	v := c[a.Name]
	out, err := convert[T](v)
	if err != nil {
		summary := "invalid value"
		detail := contract.OneLine(err.Error())
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) { // a fraction where T is an integer, for example: a description cannot express that
			summary += ": " + wrong.Value
			detail = "It must be a whole number that is not too large, or negative, for this detector."
		}
		panic(refusal{Problem{
			Path:    a.Name,
			Summary: summary,
			Detail:  detail,
		}})
	}

	return out, v != nil
}

// refusal is the value of Lookup's panic. Validate and Detect recover it as a problem of the configuration.
type refusal struct{ contract.Problem }

// Fact declares a fact and makes its values. T is as for Attr; in a struct a pointer that is nil means unknown.
type Fact[T any] struct {
	Name string
	Doc  string // one sentence
	Unit string // numbers only
}

// Declare implements Declaration.
func (f Fact[T]) Declare() contract.Attribute {
	return contract.Attribute{
		Name: f.Name,
		Type: typeOf(reflect.TypeFor[T](), 0),
		Doc:  f.Doc,
		Unit: f.Unit,
	}
}

// Is returns the fact with a value: false, 0, "" and a nil slice or map are values. For a value that could not be read
// use Unknown. Evidence is where it was read, for people: a path, a call.
func (f Fact[T]) Is(v T, evidence string) contract.Fact {
	return contract.Fact{
		Name:     f.Name,
		Value:    fill(reflect.TypeFor[T](), toValue(v)),
		Evidence: evidence,
	}
}

// Unknown returns the fact without a value, with the reason.
func (f Fact[T]) Unknown(reason string) contract.Fact {
	return contract.Fact{Name: f.Name, Unknown: contract.OneLine(reason)}
}

// fill returns a value of a type with empty lists and maps where Go has nil slices and maps, which JSON writes as null,
// and null is unknown.
func fill(t reflect.Type, v any) any {
	switch t.Kind() {
	case reflect.Pointer:
		if v != nil {
			return fill(t.Elem(), v)
		}
	case reflect.Slice:
		list, _ := v.([]any)
		out := make([]any, len(list))
		for i, e := range list {
			out[i] = fill(t.Elem(), e)
		}
		return out
	case reflect.Map:
		m, _ := v.(map[string]any)
		out := make(map[string]any, len(m))
		for k, e := range m {
			out[k] = fill(t.Elem(), e)
		}
		return out
	case reflect.Struct:
		m, _ := v.(map[string]any)
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if e, isDeclared := m[name]; isDeclared {
				m[name] = fill(t.Field(i).Type, e)
			}
		}
	}

	return v
}

// toValue converts a Go value to a value of the contract.
func toValue(v any) any {
	out, err := convert[any](v)
	if err != nil {
		panic(fmt.Sprintf("sdk: invalid value of type %T: %v", v, err))
	}

	return out
}

// convert returns the value of another type that has the same JSON.
func convert[T any](v any) (out T, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}

	return out, err
}

func typeOf(t reflect.Type, depth int) contract.Type {
	if depth > contract.MaxDepth {
		panic(fmt.Sprintf("sdk: %s is nested too deep, or in itself", t))
	}

	if t == reflect.TypeFor[time.Duration]() { // it would be a number of nanoseconds
		panic("sdk: cannot declare time.Duration: declare a number with a unit, for example " +
			`Attr[int]{Name: "wait", Unit: "s"}, and multiply it by time.Second`)
	}

	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem(), depth)
	case reflect.String:
		return contract.Type{Kind: contract.String}
	case reflect.Bool:
		return contract.Type{Kind: contract.Bool}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return contract.Type{Kind: contract.Number}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // JSON writes bytes as base64
			element := typeOf(t.Elem(), depth+1)
			return contract.Type{Kind: contract.List, Element: &element}
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			element := typeOf(t.Elem(), depth+1)
			return contract.Type{Kind: contract.Map, Element: &element}
		}
	case reflect.Struct:
		return structType(t, depth)
	}
	const text = "sdk: cannot declare type %s: " +
		"want strings, booleans, numbers, slices, maps with string keys or structs"
	panic(fmt.Sprintf(text, t))
}

func structType(t reflect.Type, depth int) contract.Type {
	out := contract.Type{Kind: contract.Object}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			panic(fmt.Sprintf("sdk: %s.%s needs a tag json with its name", t, f.Name))
		}

		a := contract.Attribute{
			Name:     name,
			Type:     typeOf(f.Type, depth+1),
			Doc:      f.Tag.Get("doc"),
			Unit:     f.Tag.Get("unit"),
			Required: f.Tag.Get("required") == "true",
		}
		if s := f.Tag.Get("one_of"); s != "" {
			a.OneOf = strings.Split(s, ",")
		}
		out.Attributes = append(out.Attributes, a)
	}
	if len(out.Attributes) == 0 { // time.Time, netip.Addr, big.Int
		const text = "sdk: cannot declare type %s, which has no exported fields: " +
			"declare a string or a number and convert it"
		panic(fmt.Sprintf(text, t))
	}

	return out
}
