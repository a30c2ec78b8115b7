package protocol

import (
	"math"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// ToProto returns the message with the content of a Request, or of a value of package contract.
func ToProto[Message any](from any) *Message {
	m := new(Message)
	convert(reflect.ValueOf(m).Elem(), reflect.ValueOf(from))

	return m
}

// FromProto returns the content of a message, which may be nil. It checks nothing: contract.Description.Check and
// CheckAnswer do.
func FromProto[T any](m proto.Message) T {
	var out T
	convert(reflect.ValueOf(&out).Elem(), reflect.ValueOf(m))

	return out
}

// convert sets a message, or a part of one, to the corresponding Go value, or the other way round. Fields correspond if
// they have the same name in JSON. What is not set, and an empty list, stays unset.
func convert(to, from reflect.Value) {
	if from.IsZero() {
		return
	}
	if to.Type() == from.Type() {
		to.Set(from)
		return
	}
	if v, isScalar := convertScalar(to, from.Interface()); isScalar {
		if v != nil {
			to.Set(reflect.ValueOf(v))
		}
		return
	}

	switch {
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		convert(to.Elem(), reflect.Indirect(from))
	case from.Kind() == reflect.Pointer:
		convert(to, from.Elem())
	case from.Kind() == reflect.Slice:
		for i := range from.Len() {
			to.Set(reflect.Append(to, newElement(to.Type().Elem())))
			convert(to.Index(i), from.Index(i))
		}
	default:
		for i := range to.NumField() {
			if f := findField(from, jsonName(to.Type().Field(i))); f.IsValid() {
				convert(to.Field(i), f)
			}
		}
	}
}

// newElement returns an element for a list. Lists of messages must not have nil in them.
func newElement(t reflect.Type) reflect.Value {
	if t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem())
	}

	return reflect.Zero(t)
}

// convertScalar converts what has different Go types in a message and in the contract. It returns false for anything
// else.
func convertScalar(to reflect.Value, from any) (v any, isScalar bool) {
	switch to.Interface().(type) {
	case *structpb.Value:
		return valueToProto(from), true
	case *structpb.Struct:
		m, isMap := from.(map[string]any)
		return StructToProto(m), isMap
	}

	switch x := from.(type) {
	case *structpb.Value:
		return valueFromProto(x), true
	case *structpb.Struct:
		return x.AsMap(), true
	case contract.Kind:
		return kindsToProto()[x], true
	case detectorv1.Type_Kind:
		for kind, number := range kindsToProto() {
			if number == x {
				return kind, true
			}
		}
		return contract.Kind(""), true
	case int:
		return countToProto(x), true
	case uint32:
		return int(x), true
	}

	return nil, false
}

// findField returns the field of a struct with a name in JSON; an invalid value if there is none.
func findField(v reflect.Value, name string) (none reflect.Value) {
	for i := range v.NumField() {
		if name != "" && jsonName(v.Type().Field(i)) == name {
			return v.Field(i)
		}
	}

	return none
}

// jsonName returns the name of a field in JSON; "" for a field without one, such as a message's own state.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")

	return name
}

func kindsToProto() map[contract.Kind]detectorv1.Type_Kind {
	return map[contract.Kind]detectorv1.Type_Kind{
		contract.String: detectorv1.Type_KIND_STRING,
		contract.Number: detectorv1.Type_KIND_NUMBER,
		contract.Bool:   detectorv1.Type_KIND_BOOL,
		contract.List:   detectorv1.Type_KIND_LIST,
		contract.Map:    detectorv1.Type_KIND_MAP,
		contract.Object: detectorv1.Type_KIND_OBJECT,
	}
}

// valueToProto converts a value. A Go type that is not one of the contract's values becomes null; the contract's
// checks find that before.
func valueToProto(v any) *structpb.Value {
	switch v := v.(type) {
	case string:
		return structpb.NewStringValue(v)
	case float64:
		return structpb.NewNumberValue(v)
	case int:
		return structpb.NewNumberValue(float64(v))
	case bool:
		return structpb.NewBoolValue(v)
	case []any:
		list := &structpb.ListValue{}
		for _, e := range v {
			list.Values = append(list.Values, valueToProto(e))
		}
		return structpb.NewListValue(list)
	case map[string]any:
		return structpb.NewStructValue(StructToProto(v))
	}

	return structpb.NewNullValue()
}

// valueFromProto converts a value. A missing value is nil. Numbers that are not finite stay numbers, for the checks;
// structpb would convert them to strings.
func valueFromProto(p *structpb.Value) any {
	switch kind := p.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return kind.NumberValue
	case *structpb.Value_ListValue:
		out := make([]any, len(kind.ListValue.GetValues()))
		for i, v := range kind.ListValue.GetValues() {
			out[i] = valueFromProto(v)
		}
		return out
	case *structpb.Value_StructValue:
		out := make(map[string]any, len(kind.StructValue.GetFields()))
		for k, v := range kind.StructValue.GetFields() {
			out[k] = valueFromProto(v)
		}
		return out
	}

	return p.AsInterface()
}

// StructToProto converts an object.
func StructToProto(m map[string]any) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for k, v := range m {
		s.Fields[k] = valueToProto(v)
	}

	return s
}

// countToProto converts a count. A count that does not fit becomes an invalid count, not another valid one.
func countToProto(n int) uint32 {
	if n < 0 || n > math.MaxUint32 {
		return math.MaxUint32
	}

	return uint32(n)
}
