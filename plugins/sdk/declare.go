package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Declaration is an attribute of a configuration, or a fact: an Attr or a Fact.
type Declaration interface {
	// Declare says it in the words of the contract. It panics where T is no type that a declaration can have; Serve and
	// every test of package detectortest find that at once.
	Declare() contract.Attribute
}

// Config is a configuration: an Attr reads it.
type Config map[string]any

// Attr declares one attribute of `config {}`, and reads it: declaration, type, default, documentation and access are
// this one value.
//
// T is string, bool, a number, a slice or a map[string] of such, or a struct, which sites write as a block. The fields
// of a struct have a tag json with their name, and may have doc, unit, one_of (separated by commas) and required:"true";
// a pointer is nil where the site says nothing.
type Attr[T any] struct {
	Name     string
	Doc      string // a sentence
	Required bool
	Default  *T // what holds where the site says nothing: new("eth0")
	Unit     string
	OneOf    []string // what a string may be
	Minimum  *float64 // of a number
	Maximum  *float64
}

// Declare implements Declaration.
func (a Attr[T]) Declare() contract.Attribute {
	out := contract.Attribute{Name: a.Name, Type: typeOf(reflect.TypeFor[T](), 0), Doc: a.Doc, Required: a.Required, Unit: a.Unit,
		OneOf: a.OneOf, Minimum: a.Minimum, Maximum: a.Maximum}
	if a.Default != nil {
		out.Default = plain(*a.Default)
	}
	return out
}

// Of reads the attribute: the site's value, else the default, else zero.
func (a Attr[T]) Of(c Config) T {
	v, _ := a.Lookup(c)
	return v
}

// Lookup reads the attribute, and tells whether it has a value.
func (a Attr[T]) Lookup(c Config) (T, bool) {
	var out T
	v, ok := c[a.Name]
	if !ok || v == nil {
		return out, false
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil { // a number with a fraction where T is a whole one: the schema cannot say that
		panic(refusal{Problem{Path: a.Name, Summary: fmt.Sprintf("not a value of type %T", out), Detail: contract.OneLine(err.Error())}})
	}
	return out, true
}

// refusal is what Lookup panics with; the guard around a detector turns it into a problem of the configuration.
type refusal struct{ contract.Problem }

// Fact declares one fact of the detector's own, with its type, and makes its values. T is as for Attr; a struct's
// pointer that is nil is unknown.
type Fact[T any] struct {
	Name string
	Doc  string // a sentence
	Unit string // of a number
}

// Declare implements Declaration.
func (f Fact[T]) Declare() contract.Attribute {
	return contract.Attribute{Name: f.Name, Type: typeOf(reflect.TypeFor[T](), 0), Doc: f.Doc, Unit: f.Unit}
}

// Is makes the fact's value. Evidence is where it was read, for people: a path, a call.
func (f Fact[T]) Is(v T, evidence string) contract.Fact {
	return contract.Fact{Name: f.Name, Value: plain(v), Evidence: evidence}
}

// Unknown says why there is no value.
func (f Fact[T]) Unknown(format string, args ...any) contract.Fact {
	return contract.Fact{Name: f.Name, Unknown: contract.OneLine(fmt.Sprintf(format, args...))}
}

// plain turns a Go value into one of the contract's.
func plain(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sdk: a %T is no value: %v", v, err))
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(fmt.Sprintf("sdk: a %T is no value: %v", v, err))
	}
	return out
}

func typeOf(t reflect.Type, depth int) contract.Type {
	if depth > contract.MaxDepth {
		panic(fmt.Sprintf("sdk: %s is nested too deep, or in itself", t))
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem(), depth)
	case reflect.String:
		return contract.Type{Kind: contract.String}
	case reflect.Bool:
		return contract.Type{Kind: contract.Bool}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return contract.Type{Kind: contract.Number}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return contract.Type{Kind: contract.List, Element: new(typeOf(t.Elem(), depth+1))}
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return contract.Type{Kind: contract.Map, Element: new(typeOf(t.Elem(), depth+1))}
		}
	case reflect.Struct:
		out := contract.Type{Kind: contract.Object}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				panic(fmt.Sprintf("sdk: %s.%s has no tag json with its name", t, f.Name))
			}
			a := contract.Attribute{Name: name, Type: typeOf(f.Type, depth+1), Doc: f.Tag.Get("doc"), Unit: f.Tag.Get("unit"), Required: f.Tag.Get("required") == "true"}
			if s := f.Tag.Get("one_of"); s != "" {
				a.OneOf = strings.Split(s, ",")
			}
			out.Attributes = append(out.Attributes, a)
		}
		return out
	}
	panic(fmt.Sprintf("sdk: %s cannot be declared; strings, booleans, numbers, slices, maps with string keys and structs can", t))
}
