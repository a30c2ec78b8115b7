package reference_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/reference"
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
	devices := []contract.PCIDevice{{Address: "a", Vendor: "1234", Device: "5678", SubsystemVendor: "9abc", SubsystemDevice: "def0", Class: "030200", Driver: "d", NUMA: new(0)}}
	whole(t, devices[0])
	if got := reference.DevicesFromProto(reference.DevicesToProto(devices)); !reflect.DeepEqual(got, devices) {
		t.Errorf("%+v", got)
	}
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

func through[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out.(M)
}

// TestCountsThatDoNotFit are refused by the checks, and do not become other counts.
func TestCountsThatDoNotFit(t *testing.T) {
	d := contract.Description{}
	for _, n := range []int{-1, math.MaxUint32 + 1, math.MaxInt64} {
		a := reference.AnswerFromProto(reference.AnswerToProto(contract.Answer{Devices: []contract.Device{{NUMA: &n}}}))
		if len(d.CheckAnswer(a)) == 0 {
			t.Errorf("%d became %d", n, *a.Devices[0].NUMA)
		}
	}
}

// FuzzAnswer: whatever a stranger sends is read and judged, and what passes is JSON that prelet can be given.
func FuzzAnswer(f *testing.F) {
	seed, err := proto.Marshal(&detectorv1.DetectResponse{Devices: []*detectorv1.Device{{Address: "0000:17:00.0"}},
		Facts: []*detectorv1.Fact{{Name: "f", Value: structpb.NewNumberValue(math.NaN())}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	d := contract.Description{Facts: []contract.Attribute{{Name: "f", Type: contract.Type{Kind: contract.Number}}}, LabelDomains: []string{"example.com"}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p detectorv1.DetectResponse
		if proto.Unmarshal(b, &p) != nil {
			return
		}
		a := reference.AnswerFromProto(&p)
		if len(d.CheckAnswer(a)) > 0 {
			return
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
	})
}
