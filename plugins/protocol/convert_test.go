package protocol_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// TestNothingIsLost sends every field of the contract over the wire and back. requireAllSet finds a field that
// somebody adds to the contract and not to this test.
func TestNothingIsLost(t *testing.T) {
	text := contract.Type{Kind: contract.String}
	list := contract.Attribute{
		Name:     "l",
		Type:     contract.Type{Kind: contract.List, Element: &contract.Type{Kind: contract.Map, Element: &text}},
		Doc:      "d",
		Required: true,
		Unit:     "u",
		OneOf:    []string{"o"},
		Minimum:  new(1.0),
		Maximum:  new(2.0),
		Default:  []any{map[string]any{"x": nil, "y": "z", "b": true, "n": 1.5}},
	}
	attribute := contract.Attribute{
		Name: "a", Type: contract.Type{Kind: contract.Object, Attributes: []contract.Attribute{list}},
		Doc: "d", Required: true, Unit: "u", OneOf: []string{"o"}, Minimum: new(1.0), Maximum: new(2.0),
		Default: map[string]any{"l": nil},
	}
	needs := contract.Needs{
		Devices: []string{"/dev/a"}, Read: []string{"/b"}, Execute: []string{"/c"}, Sockets: []string{"/d"},
		Groups: []string{"e"}, AnyPCIDevice: true,
	}
	description := contract.Description{
		Name: "n", Version: "v", Vendor: "w", Doc: "d",
		Config: []contract.Attribute{attribute}, Facts: []contract.Attribute{attribute},
		LabelDomains: []string{"example.com"},
		Match:        contract.Match{PCIIDs: []string{"1234:*"}, Paths: []string{"/p"}, Always: true},
		Needs:        needs, Wants: needs,
	}
	requireAllSet(t, description)
	requireAllSet(t, attribute)
	requireAllSet(t, needs)

	got := must(protocol.FromProto[contract.Description](overTheWire(t, must(protocol.ToProto[detectorv1.DescribeResponse](description)))))
	if !reflect.DeepEqual(got, description) {
		t.Errorf("description: got %+v\nwant %+v", got, description)
	}

	device := contract.Device{
		Address: "0000:17:00.0", Name: new("n"), Kind: new("gpu"), Vendor: new("v"), Model: new("m"), Driver: new("d"),
		MemoryBytes: new(uint64(1 << 40)), NUMA: new(1), Interface: new("eth0"), SpeedGbps: new(2.5), Link: new("up"),
		SRIOVTotalVFs: new(8), SRIOVNumVFs: new(1),
		Attributes: map[string]string{"a": "b"}, Evidence: map[string]string{"name": "x"},
	}
	answer := contract.Answer{
		Devices:    []contract.Device{device},
		Attributes: map[string]string{"c": "d"},
		Facts:      []contract.Fact{{Name: "f", Value: []any{"x", 1.0, nil, false}, Evidence: "e", Unknown: "u"}},
		Labels:     []contract.Label{{Key: "k", Value: "v", Evidence: "e"}},
		Warnings:   []string{"w"},
		Problems:   []contract.Problem{{Path: "p", Summary: "s", Detail: "d"}},
	}
	requireAllSet(t, answer)
	requireAllSet(t, device)

	sent := overTheWire(t, must(protocol.ToProto[detectorv1.DetectResponse](answer)))
	if got := must(protocol.FromProto[contract.Answer](sent)); !reflect.DeepEqual(got, answer) {
		t.Errorf("answer: got %+v\nwant %+v", got, answer)
	}

	pci := contract.PCIDevice{
		Address: "a", Vendor: "1234", Device: "5678", SubsystemVendor: "9abc", SubsystemDevice: "def0", Class: "030200",
		Driver: "d", NUMA: new(0),
	}
	request := contract.Request{
		Devices: []contract.PCIDevice{pci},
		Root:    "/r",
		Config:  map[string]any{"x": map[string]any{"y": []any{1.0, "", false, nil, map[string]any{}, []any{}}}},
	}
	requireAllSet(t, request)
	requireAllSet(t, pci)

	asked := overTheWire(t, must(protocol.ToProto[detectorv1.DetectRequest](request)))
	if got := must(protocol.FromProto[contract.Request](asked)); !reflect.DeepEqual(got, request) {
		t.Errorf("request: got %+v\nwant %+v", got, request)
	}
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

// requireAllSet ends the test when a field of v is not set, because then it is not tried.
func requireAllSet(t *testing.T, v any) {
	t.Helper()

	x := reflect.ValueOf(v)
	for i := range x.NumField() {
		if x.Field(i).IsZero() {
			t.Fatalf("%T.%s is zero; want a value, or the field is not tried", v, x.Type().Field(i).Name)
		}
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
		if sent, err := protocol.ToProto[detectorv1.DetectResponse](a); err == nil {
			t.Errorf("NUMA node %d: got %v, want an error", n, sent)
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
			if a, err := protocol.FromProto[contract.Answer](sent); err == nil {
				t.Errorf("%v: got %+v, want an error", sent, a)
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
