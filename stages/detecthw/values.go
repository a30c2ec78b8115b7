package detecthw

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// factsValue is facts as sites see them, by the names of factsType: a nil pointer is null, a nil list or map is empty. Facts that
// nobody asks for are unknown: the values of a machine with 224 threads would cost a boot more than all of its decisions. It works on
// what was decoded already: to read a large machine's JSON once more, token by token, takes longer than to read the machine.
func factsValue(f world.Facts, wanted func(name string) bool) (map[string]cty.Value, error) {
	c := converter{types: map[reflect.Type]cty.Type{}, names: map[reflect.Type][]string{}, numbers: map[int64]cty.Value{}}
	v := reflect.ValueOf(f)
	out := map[string]cty.Value{}
	for i, name := range c.fieldsOf(v.Type()) {
		if !wanted(name) {
			if err := refused(v.Field(i)); err != nil {
				return nil, fmt.Errorf(".%s%w", name, err)
			}
			out[name] = cty.UnknownVal(c.typeOf(v.Type().Field(i).Type))
			continue
		}
		e, err := c.value(v.Field(i))
		if err != nil {
			return nil, fmt.Errorf(".%s%w", name, err)
		}
		out[name] = e
	}
	return out, nil
}

// refused says which text of a fact has no value, in the words of converter.value: a machine is one that can be understood or it is
// not, whatever the site refers to.
func refused(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return refused(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := refused(v.Index(i)); err != nil {
				return fmt.Errorf("[%d]%w", i, err)
			}
		}
	case reflect.Map:
		for k, x := range v.Seq2() {
			if err := cmp.Or(refused(x), refused(k)); err != nil {
				return fmt.Errorf("[%q]%w", k.String(), err)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := refused(v.Field(i)); err != nil {
				return fmt.Errorf(".%s%w", fieldName(v.Type().Field(i)), err)
			}
		}
	case reflect.String:
		if s := v.String(); strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
			if _, err := value.FromGo(s); err != nil {
				return fmt.Errorf(": %w", err)
			}
		}
	}
	return nil
}

// converter shares what repeats hundreds of times in one machine's facts: types of elements, names of fields, and small numbers. Values of
// cty do not change.
type converter struct {
	types   map[reflect.Type]cty.Type
	names   map[reflect.Type][]string // of a struct's fields
	numbers map[int64]cty.Value
}

func (c converter) typeOf(t reflect.Type) cty.Type {
	known, ok := c.types[t]
	if !ok {
		known = typeOf(t)
		c.types[t] = known
	}
	return known
}

func (c converter) fieldsOf(t reflect.Type) []string {
	known, ok := c.names[t]
	if !ok {
		for i := range t.NumField() {
			known = append(known, fieldName(t.Field(i)))
		}
		c.names[t] = known
	}
	return known
}

func (c converter) value(v reflect.Value) (cty.Value, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return value.Absent(c.typeOf(v.Type())), nil
		}
		return c.value(v.Elem())
	case reflect.Int, reflect.Int64:
		n, ok := c.numbers[v.Int()]
		if !ok {
			n = cty.NumberIntVal(v.Int())
			c.numbers[v.Int()] = n
		}
		return n, nil
	case reflect.Slice:
		if v.Len() == 0 {
			return cty.ListValEmpty(c.typeOf(v.Type().Elem())), nil
		}
		out := make([]cty.Value, v.Len())
		for i := range out {
			e, err := c.value(v.Index(i))
			if err != nil {
				return e, fmt.Errorf("[%d]%w", i, err)
			}
			out[i] = e
		}
		return cty.ListVal(out), nil
	case reflect.Map:
		if v.Len() == 0 {
			return cty.MapValEmpty(c.typeOf(v.Type().Elem())), nil
		}
		out := make(map[string]cty.Value, v.Len())
		for k, x := range v.Seq2() {
			e, err := c.value(x)
			if err == nil {
				err = refused(k) // a name is text from outside as well
			}
			if err != nil {
				return e, fmt.Errorf("[%q]%w", k.String(), err)
			}
			out[k.String()] = e
		}
		return cty.MapVal(out), nil
	case reflect.Struct:
		names := c.fieldsOf(v.Type())
		out := make(map[string]cty.Value, len(names))
		for i, name := range names {
			e, err := c.value(v.Field(i))
			if err != nil {
				return e, fmt.Errorf(".%s%w", name, err)
			}
			out[name] = e
		}
		return cty.ObjectVal(out), nil
	}
	leaf, err := value.FromGo(v.Interface())
	if err != nil {
		return leaf, fmt.Errorf(": %w", err)
	}
	return leaf, nil
}
