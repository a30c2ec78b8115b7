package reference_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/reference"
	"github.com/prelet/prelet/plugins/wire"
)

// TestNothingIsLost: every field of the contract is set, goes over the wire, and comes back. A field that somebody adds
// to one side only is found by the loop over what is not set.
func TestNothingIsLost(t *testing.T) {
	text := contract.Type{Kind: contract.String}
	attribute := contract.Attribute{Name: "a", Type: contract.Type{Kind: contract.Object, Attributes: []contract.Attribute{
		{Name: "l", Type: contract.Type{Kind: contract.List, Element: &contract.Type{Kind: contract.Map, Element: &text}}, Doc: "d", Required: true, Unit: "u",
			OneOf: []string{"o"}, Minimum: new(1.0), Maximum: new(2.0), Default: []any{map[string]any{"x": nil, "y": "z", "b": true, "n": 1.5}}}}},
		Doc: "d", Required: true, Default: map[string]any{"l": nil}, Unit: "u", OneOf: []string{"o"}, Minimum: new(1.0), Maximum: new(2.0)}
	needs := contract.Needs{Devices: []string{"/dev/a"}, Read: []string{"/b"}, Execute: []string{"/c"}, Sockets: []string{"/d"}, Groups: []string{"e"}}
	description := contract.Description{Name: "n", Version: "v", Vendor: "w", Doc: "d", Config: []contract.Attribute{attribute}, Facts: []contract.Attribute{attribute},
		LabelDomains: []string{"example.com"}, Match: contract.Match{PCIIDs: []string{"1234:*"}, Paths: []string{"/p"}, Always: true}, Needs: needs, Wants: needs}
	whole(t, description)
	if got := reference.DescriptionFromProto(through(t, reference.DescriptionToProto(description))); !reflect.DeepEqual(got, description) {
		t.Errorf("%+v\n%+v", got, description)
	}
	if got, err := wire.DecodeDescription(marshal(t, reference.DescriptionToProto(description))); err != nil || !reflect.DeepEqual(got, description) {
		t.Errorf("%v %+v\n%+v", err, got, description)
	}
	if got := reference.DescriptionFromProto(unmarshal(t, wire.EncodeDescription(description), &detectorv1.DescribeResponse{})); !reflect.DeepEqual(got, description) {
		t.Errorf("%+v\n%+v", got, description)
	}
	answer := contract.Answer{
		Devices: []contract.Device{{Address: "0000:17:00.0", Name: new("n"), Kind: new("gpu"), Vendor: new("v"), Model: new("m"), Driver: new("d"), MemoryBytes: new(uint64(1 << 40)),
			NUMA: new(1), Interface: new("eth0"), SpeedGbps: new(2.5), Link: new("up"), SRIOVTotalVFs: new(8), SRIOVNumVFs: new(1),
			Attributes: map[string]string{"a": "b"}, Evidence: map[string]string{"name": "x"}}},
		Attributes: map[string]string{"c": "d"}, Facts: []contract.Fact{{Name: "f", Value: []any{"x", 1.0, nil, false}, Evidence: "e", Unknown: "u"}},
		Labels: []contract.Label{{Key: "k", Value: "v", Evidence: "e"}}, Warnings: []string{"w"}, Problems: []contract.Problem{{Path: "p", Summary: "s", Detail: "d"}}}
	whole(t, answer)
	if got := reference.AnswerFromProto(through(t, reference.AnswerToProto(answer))); !reflect.DeepEqual(got, answer) {
		t.Errorf("%+v\n%+v", got, answer)
	}
	if got, err := wire.DecodeAnswer(marshal(t, reference.AnswerToProto(answer))); err != nil || !reflect.DeepEqual(got, answer) {
		t.Errorf("%v %+v\n%+v", err, got, answer)
	}
	if got := reference.AnswerFromProto(unmarshal(t, wire.EncodeAnswer(answer), &detectorv1.DetectResponse{})); !reflect.DeepEqual(got, answer) {
		t.Errorf("%+v\n%+v", got, answer)
	}
	devices := []contract.PCIDevice{{Address: "a", Vendor: "1234", Device: "5678", SubsystemVendor: "9abc", SubsystemDevice: "def0", Class: "030200", Driver: "d", NUMA: new(0)}}
	whole(t, devices[0])
	if got := reference.DevicesFromProto(reference.DevicesToProto(devices)); !reflect.DeepEqual(got, devices) {
		t.Errorf("%+v", got)
	}
	request := wire.Request{Devices: devices, Root: "/r", Config: map[string]any{"x": map[string]any{"y": []any{1.0, "", false, nil, map[string]any{}, []any{}}}}}
	whole(t, request)
	if got, err := wire.DecodeRequest(marshal(t, requestToProto(request))); err != nil || !reflect.DeepEqual(got, request) {
		t.Errorf("%v %+v\n%+v", err, got, request)
	}
	if got := requestFromProto(unmarshal(t, wire.EncodeRequest(request), &detectorv1.DetectRequest{})); !reflect.DeepEqual(got, request) {
		t.Errorf("%+v\n%+v", got, request)
	}
	config := unmarshal(t, wire.EncodeConfig(request.Config), &detectorv1.ValidateRequest{})
	if got := reference.StructFromProto(config.GetConfig()); !reflect.DeepEqual(got, request.Config) {
		t.Errorf("%+v", got)
	}
	if got, err := wire.DecodeConfig(marshal(t, config)); err != nil || !reflect.DeepEqual(got, request.Config) {
		t.Errorf("%v %+v", err, got)
	}
	problems := unmarshal(t, wire.EncodeProblems(answer.Problems), &detectorv1.ValidateResponse{})
	if got := reference.ProblemsFromProto(problems.GetProblems()); !reflect.DeepEqual(got, contract.Problems(answer.Problems)) {
		t.Errorf("%+v", got)
	}
	if got, err := wire.DecodeProblems(marshal(t, problems)); err != nil || !reflect.DeepEqual(got, contract.Problems(answer.Problems)) {
		t.Errorf("%v %+v", err, got)
	}
}

func requestToProto(r wire.Request) *detectorv1.DetectRequest {
	return &detectorv1.DetectRequest{Config: reference.StructToProto(r.Config), Devices: reference.DevicesToProto(r.Devices), Root: r.Root}
}

func requestFromProto(p *detectorv1.DetectRequest) wire.Request {
	return wire.Request{Config: reference.StructFromProto(p.GetConfig()), Devices: reference.DevicesFromProto(p.GetDevices()), Root: p.GetRoot()}
}

// whole ends the test when a field is not set: then it was not tried.
func whole(t *testing.T, v any) {
	t.Helper()
	x := reflect.ValueOf(v)
	for i := range x.NumField() {
		if x.Field(i).IsZero() {
			t.Fatalf("%T.%s is not tried", v, x.Type().Field(i).Name)
		}
	}
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshal[M proto.Message](t *testing.T, b []byte, into M) M {
	t.Helper()
	if err := proto.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func through[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	return unmarshal(t, marshal(t, m), m.ProtoReflect().New().Interface().(M))
}

// TestCountsThatDoNotFit are refused by the checks, and do not become other counts.
func TestCountsThatDoNotFit(t *testing.T) {
	d := contract.Description{}
	for _, n := range []int{-1, math.MaxUint32 + 1, math.MaxInt64} {
		answer := contract.Answer{Devices: []contract.Device{{NUMA: &n}}}
		short, err := wire.DecodeAnswer(wire.EncodeAnswer(answer))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []contract.Answer{reference.AnswerFromProto(reference.AnswerToProto(answer)), short} {
			if len(d.CheckAnswer(a)) == 0 {
				t.Errorf("%d became %d", n, *a.Devices[0].NUMA)
			}
		}
	}
}

// FuzzAnswer: whatever a stranger sends is read as protobuf's library reads it, and judged, and what passes is JSON that
// prelet can be given.
func FuzzAnswer(f *testing.F) {
	seeds(f, reference.AnswerToProto(contract.Answer{Devices: []contract.Device{{Address: "0000:17:00.0", NUMA: new(1), Attributes: map[string]string{"a": "b"}}},
		Facts: []contract.Fact{{Name: "f", Value: math.NaN()}, {Name: "g", Value: []any{map[string]any{"x": nil}, "y", true}}}, Warnings: []string{"w"},
		Labels: []contract.Label{{Key: "k"}}, Problems: []contract.Problem{{Path: "p"}}}))
	d := contract.Description{Facts: []contract.Attribute{{Name: "f", Type: contract.Type{Kind: contract.Number}}}, LabelDomains: []string{"example.com"}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p detectorv1.DetectResponse
		a, err := wire.DecodeAnswer(b)
		if !agree(t, proto.Unmarshal(b, &p), err) {
			return
		}
		if want := reference.AnswerFromProto(&p); !bytes.Equal(wire.EncodeAnswer(a), wire.EncodeAnswer(want)) {
			t.Fatalf("%+v\n%+v", a, want)
		}
		if len(a.Problems) > 0 { // nothing else is looked at then, nor passed on
			a = contract.Answer{Problems: a.Problems}
		}
		if len(d.CheckAnswer(a)) > 0 {
			return
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
	})
}

// FuzzDescription: the same for descriptions.
func FuzzDescription(f *testing.F) {
	seeds(f, reference.DescriptionToProto(contract.Description{Name: "n", Config: []contract.Attribute{{Name: "a", Default: map[string]any{"b": 1.0}, Minimum: new(1.0),
		Type: contract.Type{Kind: contract.Map, Element: &contract.Type{Kind: contract.Object, Attributes: []contract.Attribute{{Name: "c"}}}}}}, Needs: contract.Needs{Read: []string{"/x"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p detectorv1.DescribeResponse
		d, err := wire.DecodeDescription(b)
		if !agree(t, proto.Unmarshal(b, &p), err) {
			return
		}
		if want := reference.DescriptionFromProto(&p); !bytes.Equal(wire.EncodeDescription(d), wire.EncodeDescription(want)) {
			t.Fatalf("%+v\n%+v", d, want)
		}
	})
}

// FuzzRequest: the same for what a detector is asked.
func FuzzRequest(f *testing.F) {
	seeds(f, requestToProto(wire.Request{Root: "/", Devices: []contract.PCIDevice{{Address: "a", NUMA: new(1)}}, Config: map[string]any{"a": []any{1.0, map[string]any{"b": nil}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p detectorv1.DetectRequest
		r, err := wire.DecodeRequest(b)
		if !agree(t, proto.Unmarshal(b, &p), err) {
			return
		}
		if want := requestFromProto(&p); !bytes.Equal(wire.EncodeRequest(r), wire.EncodeRequest(want)) {
			t.Fatalf("%+v\n%+v", r, want)
		}
	})
}

func seeds(f *testing.F, m proto.Message) {
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, b...))                       // what follows is added to what was
	f.Add(append(b, 0x9b, 6, 8, 1, 0x9c, 6))     // a group of a later version
	f.Add(append(b, 0x9a, 6, 2, 'x', 'y', 8, 1)) // another field, and one in another form
	f.Add(b[:len(b)-1])
}

// agree tells whether both have read it. That ours refuses what is nested deeper or longer than any contract is no difference.
func agree(t *testing.T, reference, ours error) bool {
	if (reference == nil) != (ours == nil) && !errors.Is(ours, wire.ErrBounds) {
		t.Fatalf("protobuf's library says %v, and package wire %v", reference, ours)
	}
	return reference == nil && ours == nil
}
