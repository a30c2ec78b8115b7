package world

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"testing/quick"
	"time"
)

// odd is what a type of ours may come to be, and what texts may hold.
type odd struct {
	Access
	Text    string              `json:"text"`
	Bytes   []byte              `json:"bytes"`
	Time    time.Time           `json:"time"`
	When    *time.Time          `json:"when,omitempty"`
	Any     any                 `json:"any"`
	Raw     json.RawMessage     `json:"raw,omitempty"`
	Numbers [3]float64          `json:"numbers"`
	Map     map[string]*odd     `json:"map,omitempty"`
	Deep    [][]map[string]*int `json:"deep"`
	By      map[int]string      `json:"by"`
	Never   string              `json:"-"`
	hidden  string
	U       uint8 `json:"u,omitempty"`
}

// tagged is left to json.Marshal as a whole.
type tagged struct {
	Quoted   int `json:"quoted,string"`
	Untagged string
}

// hiding has a field that hides one of what it embeds.
type hiding struct {
	LockAns
	File int `json:"file"`
}

// TestEncode: what is written is what json.Marshal writes, for each question and answer filled at random, and for odd types.
func TestEncode(t *testing.T) {
	whole := func(v any) {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := encode(v); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: %v\ngot  %s\nwant %s", v, err, got, want)
		}
	}
	r := rand.New(rand.NewSource(7))
	for _, typ := range []reflect.Type{
		reflect.TypeFor[FileReq](), reflect.TypeFor[FileAns](), reflect.TypeFor[CredentialReq](), reflect.TypeFor[CredentialAns](), reflect.TypeFor[VariableReq](), reflect.TypeFor[VariableAns](),
		reflect.TypeFor[TrustReq](), reflect.TypeFor[TrustAns](), reflect.TypeFor[ObjectReq](), reflect.TypeFor[ObjectAns](), reflect.TypeFor[FactsReq](), reflect.TypeFor[Facts](),
		reflect.TypeFor[LockReq](), reflect.TypeFor[ServingReq](), reflect.TypeFor[ServingAns](), reflect.TypeFor[Header](), reflect.TypeFor[KubeletReq](), reflect.TypeFor[KubeletAns](), reflect.TypeFor[AcceptsReq](), reflect.TypeFor[AcceptsAns](),
		reflect.TypeFor[ExistsReq](), reflect.TypeFor[ExistsAns](), reflect.TypeFor[OriginalReq](), reflect.TypeFor[TargetReq](), reflect.TypeFor[TargetAns](),
		reflect.TypeFor[ManagedReq](), reflect.TypeFor[ManagedAns](), reflect.TypeFor[ValidationReq](), reflect.TypeFor[ValidationAns](),
	} {
		whole(reflect.Zero(typ).Interface())
		for range 200 {
			v, ok := quick.Value(typ, r)
			if !ok {
				t.Fatalf("%s cannot be made at random", typ)
			}
			whole(v.Interface())
			whole(&[]any{v.Interface()}[0])
		}
	}
	now, n := time.Unix(1, 2).UTC(), 3
	o := odd{Text: "<a&b>\"\\\u2028\xff\x7f\n", Bytes: []byte{1}, Time: now, When: &now, Any: map[string]any{"b": 1.5, "a": []any{nil, true}}, Raw: json.RawMessage(` {"x": [1, 2]}`),
		Deep: [][]map[string]*int{nil, {{"é": &n, "<": nil}}}, By: map[int]string{2: "b", 1: "a"}, hidden: "x", U: 7}
	o.Map = map[string]*odd{"z": {}, "a": nil}
	for _, v := range []any{nil, o, &o, []odd{o}, tagged{1, "x"}, hiding{File: 1}, LockAns{File: "f"}, DetectorReq{Name: "n", Config: map[string]any{"a": 1.5}, Millis: 3}, DetectorAns{Version: "1", Facts: map[string]any{"x": nil}}, DetectorReq{}, map[string]tagged{"a": {}}, 1.5, "x", []string(nil), map[string]int{}, (*odd)(nil)} {
		whole(v)
	}
	if _, err := encode(map[string]any{"x": func() {}}); err == nil {
		t.Error("a function was encoded")
	}
}
