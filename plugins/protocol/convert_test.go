package protocol_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// TestNothingIsLost sends every field of the contract over the wire and back.
func TestNothingIsLost(t *testing.T) {
	sendBack[contract.Description, detectorv1.DescribeResponse](t)
	sendBack[contract.Answer, detectorv1.DetectResponse](t)
	sendBack[contract.Request, detectorv1.DetectRequest](t)
}

// sendBack sends a T as a message, and compares what arrives.
func sendBack[T, Message any](t *testing.T) {
	t.Helper()
	var want T
	new(filler).fill(reflect.ValueOf(&want).Elem(), 3)

	sent := overTheWire(t, any(must(protocol.ToProto[Message](want))).(proto.Message))
	if got := must(protocol.FromProto[T](sent)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// filler counts the values that it has set.
type filler int

// fill sets v and everything in it, at most depth structures deep, to values that are not zero and that differ.
func (f *filler) fill(v reflect.Value, depth int) {
	*f++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *f))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(int64(*f))
	case reflect.Uint64:
		v.SetUint(1<<40 + uint64(*f))
	case reflect.Float64:
		v.SetFloat(0.5 + float64(*f))
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"x": []any{1.5, "", false, nil, map[string]any{}, []any{}}}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), depth)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Struct:
		if t, isType := v.Addr().Interface().(*contract.Type); isType { // its kind decides what else it has
			f.fillType(t, depth)
			return
		}
		for i := range v.NumField() {
			f.fill(v.Field(i), depth-1)
		}
	}
}

func (f *filler) fillType(t *contract.Type, depth int) {
	if depth > 0 {
		t.Kind = contract.Object
		f.fill(reflect.ValueOf(&t.Attributes).Elem(), depth-1)
		return
	}
	text := contract.Type{Kind: contract.String}
	*t = contract.Type{Kind: contract.List, Element: &contract.Type{Kind: contract.Map, Element: &text}}
}

// TestEmptyElements: an element of a list without any field stays an element, and a fact without a value has none.
func TestEmptyElements(t *testing.T) {
	want := contract.Answer{
		Devices: []contract.Device{{}, {Name: new("n")}},
		Facts:   []contract.Fact{{Name: "zero", Value: 0.0}, {Name: "none"}, {Name: "list", Value: []any{}}},
		Labels:  []contract.Label{{}},
	}
	sent := overTheWire(t, must(protocol.ToProto[detectorv1.DetectResponse](want)))
	if got := must(protocol.FromProto[contract.Answer](sent)); !reflect.DeepEqual(got, want) {
		t.Errorf("answer: got %+v, want %+v", got, want)
	}
	var none *detectorv1.DetectResponse
	if got := must(protocol.FromProto[contract.Answer](none)); !reflect.DeepEqual(got, contract.Answer{}) {
		t.Errorf("nil message: got %+v, want an empty answer", got)
	}
}

// overTheWire returns m as the other side decodes it.
func overTheWire[M proto.Message](t *testing.T, m M) M {
	t.Helper()

	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}

	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}

	return out
}

// TestCountsThatDoNotFit: a count beyond the wire's range is an error and does not become another count.
func TestCountsThatDoNotFit(t *testing.T) {
	for _, n := range []int{-1, math.MaxUint32 + 1, math.MaxInt64} {
		a := contract.Answer{Devices: []contract.Device{{NUMA: &n}}}
		want := fmt.Sprint("its field devices.numa cannot be the number ", n)
		if sent, err := protocol.ToProto[detectorv1.DetectResponse](a); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("NUMA node %d: got %v, %v, want the error %q", n, sent, err, want)
		}
	}
}

// TestNumbersThatAreNotFinite: JSON, the form of an answer after this, has none.
func TestNumbersThatAreNotFinite(t *testing.T) {
	for _, n := range []float64{math.NaN(), math.Inf(1)} {
		for _, sent := range []*detectorv1.DetectResponse{
			{Facts: []*detectorv1.Fact{{Name: "f", Value: structpb.NewNumberValue(n)}}},
			{Devices: []*detectorv1.Device{{SpeedGbps: &n}}},
		} {
			if a, err := protocol.FromProto[contract.Answer](sent); err == nil || strings.Contains(err.Error(), "structpb") {
				t.Errorf("%v: got %+v, %v, want an error without a type of Go", sent, a, err)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}

	return v
}

// FuzzAnswer: any message that protobuf decodes and the contract accepts can be passed on to prelet as JSON.
func FuzzAnswer(f *testing.F) {
	addSeeds(f, must(protocol.ToProto[detectorv1.DetectResponse](contract.Answer{
		Devices: []contract.Device{{Address: "0000:17:00.0", NUMA: new(1), Attributes: map[string]string{"a": "b"}}},
		Facts: []contract.Fact{
			{Name: "f", Value: 1.5},
			{Name: "g", Value: []any{map[string]any{"x": nil}, "y", true}},
		},
		Warnings: []string{"w"},
		Labels:   []contract.Label{{Key: "k"}},
		Problems: []contract.Problem{{Path: "p"}},
	})))
	d := contract.Description{
		Facts:        []contract.Attribute{{Name: "f", Type: contract.Type{Kind: contract.Number}}},
		LabelDomains: []string{"example.com"},
	}

	f.Fuzz(func(t *testing.T, b []byte) {
		var p detectorv1.DetectResponse
		if proto.Unmarshal(b, &p) != nil {
			return
		}

		a, err := protocol.FromProto[contract.Answer](&p)
		if err != nil || len(d.CheckAnswer(a, nil)) > 0 {
			return
		}

		if len(a.Problems) > 0 { // only the problems are passed on
			a = contract.Answer{Problems: a.Problems}
		}
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%+v passed the checks; got %v as JSON, want no error", a, err)
		}
	})
}

// FuzzDescription does the same for descriptions.
func FuzzDescription(f *testing.F) {
	object := contract.Type{Kind: contract.Object, Attributes: []contract.Attribute{{Name: "c"}}}
	addSeeds(f, must(protocol.ToProto[detectorv1.DescribeResponse](contract.Description{
		Name: "n",
		Config: []contract.Attribute{{
			Name: "a", Default: map[string]any{"b": 1.0}, Minimum: new(1.0),
			Type: contract.Type{Kind: contract.Map, Element: &object},
		}},
		Needs: contract.Needs{Read: []string{"/x"}},
	})))

	f.Fuzz(func(t *testing.T, b []byte) {
		var p detectorv1.DescribeResponse
		if proto.Unmarshal(b, &p) != nil {
			return
		}

		d, err := protocol.FromProto[contract.Description](&p)
		if err != nil || len(d.Check()) > 0 {
			return
		}
		if _, err := json.Marshal(d); err != nil {
			t.Errorf("%+v passed the checks; got %v as JSON, want no error", d, err)
		}
	})
}

func addSeeds(f *testing.F, m proto.Message) {
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}

	f.Add(b)
	f.Add(append(b, b...))
	f.Add(append(b, 0x9a, 6, 2, 'x', 'y', 8, 1)) // an unknown field, and a known one in another encoding
	f.Add(b[:len(b)-1])
}
