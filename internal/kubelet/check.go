package kubelet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Severity says what the kubelet makes of a problem.
type Severity string

const (
	SeverityError   Severity = "error"   // it exits, or its Node is refused
	SeverityWarning Severity = "warning" // it runs, and does not do what the text says
)

// Problem is one thing that is wrong with a configuration. Message has the kubelet's own words where it has any,
// so that the same refusal is recognised in its journal.
type Problem struct {
	Pointer  string   `json:"pointer"` // RFC 6901, the field
	Code     string   `json:"code"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to do
	Severity Severity `json:"severity"`
}

// CheckConfig finds what can be found in a KubeletConfiguration without the machine that it is for: misspelt fields,
// values that the kubelet does not decode, and what it refuses at start. The rules are those that a kubelet
// v1.36.3 was seen to have, and of its ValidateKubeletConfiguration. No problems do not mean that it starts:
// capacity, online CPUs, cgroups and feature gates are the machine's. Problems come sorted by pointer.
func CheckConfig(c *Config) []Problem {
	k := &checker{config: c, fields: configFields()}
	k.object(nil, "", c.doc)
	k.rules()
	return k.sorted()
}

// CheckFields finds what is wrong with single fields: misspelt names, and values that the kubelet does not decode or
// does not know. So it does for a part of a configuration, whose other fields are elsewhere.
func CheckFields(c *Config) []Problem {
	k := &checker{config: c, fields: configFields()}
	k.object(nil, "", c.doc)
	k.words()
	return k.sorted()
}

func (k *checker) sorted() []Problem {
	slices.SortStableFunc(k.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return k.problems
}

type checker struct {
	config   *Config
	fields   map[string]fieldType
	problems []Problem
}

func (k *checker) add(severity Severity, path []string, code, message, hint string) {
	k.problems = append(k.problems, Problem{Pointer(path...), code, message, hint, severity})
}

func (k *checker) fail(path []string, code, hint, format string, args ...any) {
	k.add(SeverityError, path, code, fmt.Sprintf(format, args...), hint)
}

func (k *checker) warn(path []string, code, hint, format string, args ...any) {
	k.add(SeverityWarning, path, code, fmt.Sprintf(format, args...), hint)
}

// object checks names and types of the fields of an object whose own name in the table is at ("" for the root).
func (k *checker) object(path []string, at string, object map[string]any) {
	for _, name := range sortedKeys(object) {
		field := name
		if at != "" {
			field = at + "." + name
		}
		here := append(slices.Clone(path), name)
		t, known := k.fields[field]
		if !known {
			k.unknownField(here, at, name)
			continue
		}
		if object[name] != nil { // null is as if it were absent
			k.value(here, field, t, object[name])
		}
	}
}

func (k *checker) unknownField(path []string, at, name string) {
	var siblings []string
	elsewhere := ""
	for _, field := range sortedKeys(k.fields) {
		parent, last := "", field
		if i := strings.LastIndexByte(field, '.'); i >= 0 {
			parent, last = field[:i], field[i+1:]
		}
		if parent == at {
			siblings = append(siblings, last)
		} else if last == name && elsewhere == "" {
			elsewhere = field
		}
	}
	hint := "remove it, or check it against the kubelet's version (the table here is that of v1.36)"
	if near := nearest(name, siblings); near != "" {
		hint = "did you mean " + near + "?"
	} else if elsewhere != "" {
		hint = "did you mean " + elsewhere + "?"
	}
	k.warn(path, "config-unknown-field", hint, "unknown field %q: the kubelet runs without it and does not say so", name)
}

// value checks a value against the type of its field.
func (k *checker) value(path []string, field string, t fieldType, v any) {
	switch t {
	case typeString:
		k.expect(path, v, "string", isA[string](v))
	case typeBool:
		k.expect(path, v, "bool", isA[bool](v))
	case typeInt32:
		k.expect(path, v, "int32", isInteger(v, 32))
	case typeInt64:
		k.expect(path, v, "int64", isInteger(v, 64))
	case typeUint32:
		k.expect(path, v, "uint32", isUnsigned(v))
	case typeNumber:
		k.expect(path, v, "float64", isA[json.Number](v))
	case typeDuration:
		if k.expect(path, v, "string", isA[string](v)) {
			k.duration(path, v.(string))
		}
	case typeDurationOrInt:
		if s, ok := v.(string); ok {
			k.duration(path, s)
		} else {
			k.expect(path, v, "int64", isInteger(v, 64))
		}
	case typeQuantity:
		k.quantityValue(path, v)
	case typeObject:
		if k.expect(path, v, "struct", isA[map[string]any](v)) {
			k.object(path, field, v.(map[string]any))
		}
	case typeObjectList:
		k.elements(path, v, func(path []string, v any) {
			if k.expect(path, v, "struct", isA[map[string]any](v)) {
				k.object(path, field+"[]", v.(map[string]any))
			}
		})
	case typeStrings:
		k.members(path, v, func(member []string, v any) { k.expectIn(path, member, v, "string", isA[string](v)) })
	case typeBools:
		k.members(path, v, func(member []string, v any) { k.expectIn(path, member, v, "bool", isA[bool](v)) })
	case typeQuantities:
		k.members(path, v, k.quantityValue)
	case typeStringLists:
		k.members(path, v, k.strings)
	case typeStringList:
		k.strings(path, v)
	case typeIntList:
		if k.expect(path, v, "[]int32", isA[[]any](v)) {
			k.elements(path, v, func(element []string, v any) { k.expectIn(path, element, v, "int32", isInteger(v, 32)) })
		}
	}
}

func (k *checker) strings(path []string, v any) {
	if k.expect(path, v, "[]string", isA[[]any](v)) {
		k.elements(path, v, func(element []string, v any) { k.expectIn(path, element, v, "string", isA[string](v)) })
	}
}

func (k *checker) members(path []string, v any, check func([]string, any)) {
	if !k.expect(path, v, "map", isA[map[string]any](v)) {
		return
	}
	object := v.(map[string]any)
	for _, name := range sortedKeys(object) {
		if object[name] != nil {
			check(append(slices.Clone(path), name), object[name])
		}
	}
}

func (k *checker) elements(path []string, v any, check func([]string, any)) {
	if !k.expect(path, v, "slice", isA[[]any](v)) {
		return
	}
	for i, element := range v.([]any) {
		if element != nil {
			check(append(slices.Clone(path), strconv.Itoa(i)), element)
		}
	}
}

// expect adds the decoder's words where a value is not of its field's type.
func (k *checker) expect(path []string, v any, want string, ok bool) bool {
	return k.expectIn(path, path, v, want, ok)
}

// expectIn is expect for a member of a map or list: the decoder names the struct's field, the pointer the member.
func (k *checker) expectIn(field, path []string, v any, want string, ok bool) bool {
	if ok {
		return true
	}
	hint := ""
	switch {
	case want == "string" && (isA[json.Number](v) || isA[bool](v)):
		hint = fmt.Sprintf("put it in quotes: %q", fmt.Sprint(v))
	case isA[string](v) && strings.HasPrefix(want, "int"):
		hint = "write a whole number without quotes"
	case isA[string](v) && want == "bool":
		hint = "write true or false without quotes"
	case isA[json.Number](v):
		hint = "the number does not fit the field"
	}
	k.fail(path, "config-wrong-type", hint, "json: cannot unmarshal %s into Go struct field KubeletConfiguration.%s of type %s",
		jsonKind(v, want), strings.Join(field, "."), want)
	return false
}

func jsonKind(v any, want string) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case json.Number:
		if strings.Contains(want, "int") {
			return "number " + string(v) // which does not fit
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func (k *checker) duration(path []string, s string) (time.Duration, bool) {
	d, err := time.ParseDuration(s)
	if err != nil {
		k.fail(path, "config-bad-duration", "write a number and a unit, like 90s, 1m30s or 4h", "%s", err)
	}
	return d, err == nil
}

func (k *checker) quantityValue(path []string, v any) {
	switch v := v.(type) {
	case string:
		k.quantity(path, v)
	case json.Number:
		k.quantity(path, string(v))
	default:
		k.expect(path, v, "resource.Quantity", false)
	}
}

func (k *checker) quantity(path []string, s string) (resource.Quantity, bool) {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		k.fail(path, "config-bad-quantity", "write a number with a unit that Kubernetes knows, like 100Mi, 2Gi, 500m or 4", "failed to parse quantity %q: %s", s, err)
	}
	return q, err == nil
}

func isA[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func isInteger(v any, bits int) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := strconv.ParseInt(string(n), 10, bits)
	return err == nil
}

func isUnsigned(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(string(n), 10, 32)
	return err == nil
}
