package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/testing/growth"
)

func TestDecode(t *testing.T) {
	for src, want := range map[string]string{
		`{"a":[1,-2.50,"x",null,true,{}],"b":""}`: "",
		`18446744073709551617`:                    "",
		`"é"`:                                     "",
	} {
		j, err := DecodeJSON([]byte(src))
		noError(t, err)
		y, err := DecodeYAML([]byte(src))
		noError(t, err)
		if want == "" {
			want = src
		}
		if v := must(t, strings.ReplaceAll(want, `":`, `"=`)); !j.RawEquals(v) {
			t.Errorf("JSON %s is %#v, want %#v", src, j, v)
		} else if src[0] == '{' && !y.RawEquals(v) {
			t.Errorf("YAML %s is %#v, want %#v", src, y, v)
		}
	}
	for src, want := range map[string]string{
		"a: 1\nb:\n- x\n- {c: ~}\n":            `{a = 1, b = ["x", {c = null}]}`,
		"# only a comment\n":                   `null`,
		"":                                     `null`,
		"---\na: yes\n":                        `{a = true}`, // YAML 1.1, as the kubelet reads it
		"a: &x {b: 1}\nc: *x\n":                `{a = {b = 1}, c = {b = 1}}`,
		"1: a\n":                               `{"1" = "a"}`,
		"a: |\n  [[[\n    [[\n  - - - -\nb: 1": `{a = "[[[\n  [[\n- - - -\n", b = 1}`,
		"a: 10Gi\nb: 0.5\n":                    `{a = "10Gi", b = 0.5}`,
		"a: \"[\"\nb: don't [\nc: '{'\n":       `{a = "[", b = "don't [", c = "{"}`,
		"a: 1\n---\n# nothing more\n":          `{a = 1}`,
	} {
		got, err := DecodeYAML([]byte(src))
		if v := must(t, want); err != nil || !got.RawEquals(v) {
			t.Errorf("YAML %q is %#v, %v; want %#v", src, got, err, v)
		}
	}
	long := "a: |\n" + strings.Repeat("  if [[ x\n", 500) + "b: " + strings.Repeat("[", 60) + strings.Repeat("]", 60)
	if _, err := DecodeYAML([]byte(long)); err != nil {
		t.Errorf("brackets in block text: got error %v, want none", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		prev, next := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+prev+",", 10), ",") + "]\n"
	}
	var indented strings.Builder
	for i := range 70 {
		indented.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	jsonCases := map[string]string{
		"":                               "ends too early",
		"[1":                             "ends too early",
		"{]":                             "not JSON at byte 2",
		"1 2":                            "more after the end",
		`{"a":1,"b":{"c":1,"c":2}}`:      `the key "c" is given twice`,
		"{\"\u00e9\":1,\"e\u0301\":2}":   "same Unicode text",
		"\"\xff\"":                       "not UTF-8",
		"\"\ue000\"":                     "U+E000",
		`"\ue001"`:                       "U+E000",
		`{"\ue000":1}`:                   "U+E000",
		"1e401":                          "out of range",
		"-1E-99999999999999999999":       "out of range",
		strings.Repeat("9", 900):         "out of range",
		deep(65):                         "nests more than 64 levels",
		strings.Repeat(`{"a":`, 65):      "nests more than 64 levels",
		strings.Repeat(" ", 1<<20) + "1": "has 1048577 bytes",
	}
	yamlCases := map[string]string{
		"a: 1\na: 2":                   "already set",
		"a: [":                         "not YAML",
		"a: 1\n---\nb: 2":              "more than one YAML document",
		"\xff":                         "not UTF-8",
		`"\uE000"`:                     "U+E000",
		"a: \ue001":                    "U+E000",
		strings.Repeat("-\n", 100_001): "100001 lines and commas",
		"[a]: b":                       "invalid map key",
		"18446744073709551615: e":      "neither text",
		"~: b":                         "is null",
		"1: a\n\"1\": b":               "is given twice",
		"a: !!binary /w==":             "not UTF-8",
		"a: .inf":                      "not finite",
		bomb:                           "excessive aliasing",
		deep(65):                       "nests more than 64 levels",
		strings.Repeat("- ", 65) + "x": "nests more than 64 levels",
		indented.String():              "nests more than 64 levels",
		strings.Repeat("[\n", 65):      "not YAML: line 65",
		strings.Repeat("#", 1<<20+1):   "has 1048577 bytes",
		strings.Repeat("? ", 70) + "x": "invalid map key",
		// Made to mislead what counts before parsing: a closing bracket in a plain word, and text that is none.
		"[" + strings.Repeat("x], [", 3) + strings.Repeat(`[a'], '`, 200): "not YAML",
		strings.Repeat("[\"]\",\n", 70):                                   "not YAML: line 70",
		strings.Repeat("[a],[|\n", 1):                                     "not YAML",
	}
	for kind, cases := range map[string]map[string]string{"JSON": jsonCases, "YAML": yamlCases} {
		decode := map[string]func([]byte) (cty.Value, error){"JSON": DecodeJSON, "YAML": DecodeYAML}[kind]
		for src, want := range cases {
			var v cty.Value
			var err error
			bytes := growth.Allocated(func() { v, err = decode([]byte(src)) })
			shown := src[:min(len(src), 60)]
			if err == nil || !strings.Contains(err.Error(), want) || v.IsKnown() {
				t.Errorf("%s %q is %#v, %v; want an error with %q", kind, shown, v, err, want)
			} else if len(err.Error()) > 320 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %q: got message %s, want a short one", kind, shown, err)
			}
			if bytes > 256<<20 { // of a MiB of text at most
				t.Errorf("%s %q: got %d bytes of memory, want at most 256 MiB", kind, shown, bytes)
			}
		}
	}
}

func TestGoValues(t *testing.T) {
	v := must(t,
		`{a = [1, -2.5, "x", null, true, {}], n = 18446744073709551617, m = 9223372036854775807, e = [], t = 0.1}`,
	)
	want := map[string]any{
		"a": []any{
			int64(1),
			json.Number("-2.5"),
			"x",
			nil,
			true,
			map[string]any{},
		},
		"n": json.Number("18446744073709551617"),
		"m": int64(math.MaxInt64),
		"e": []any{},
		"t": json.Number("0.1"),
	}
	got, err := ToGo(v)
	noError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ToGo (- want, + got):\n%s", diff)
	}
	back, err := FromGo(got)
	noError(t, err)
	if !back.RawEquals(v) {
		t.Errorf("there and back is %#v, want %#v", back, v)
	}
	coll := cty.ObjectVal(
		map[string]cty.Value{
			"s": cty.SetVal([]cty.Value{cty.True}),
			"m": cty.MapVal(map[string]cty.Value{"k": cty.Zero}),
		},
	)
	if got, err := ToGo(coll); err != nil ||
		cmp.Diff(map[string]any{"s": []any{true}, "m": map[string]any{"k": int64(0)}}, got) != "" {
		t.Errorf("ToGo of a set and a map: got %#v, %v; want a list and a map", got, err)
	}
	for name, tt := range map[string]struct {
		v    cty.Value
		path string
	}{
		"marked":   {cty.ObjectVal(map[string]cty.Value{"a": cty.TupleVal([]cty.Value{cty.True, secret.Credential("c")})}), ".a[1]"},
		"unknown":  {cty.ListVal([]cty.Value{cty.UnknownVal(cty.String)}), "[0]"},
		"infinite": {cty.PositiveInfinity, "."},
		"huge":     {must(t, "1e99999"), "."},
		"capsule":  {cty.CapsuleVal(cty.Capsule("x", reflect.TypeFor[int]()), new(int)), "."},
	} {
		if got, err := ToGo(tt.v); err == nil || PathOf(err) != tt.path {
			t.Errorf("%s is %#v, %v at %s; want an error at %s", name, got, err, PathOf(err), tt.path)
		}
	}
	for name, tt := range map[string]struct {
		v    any
		want cty.Value
	}{
		"int":   {3, cty.NumberIntVal(3)},
		"uint":  {uint64(math.MaxUint64), cty.MustParseNumberVal("18446744073709551615")},
		"float": {0.1, cty.MustParseNumberVal("0.1")},
		"nil":   {nil, cty.NullVal(cty.DynamicPseudoType)},
	} {
		if got, err := FromGo(tt.v); err != nil || !got.RawEquals(tt.want) {
			t.Errorf("%s is %#v, %v; want %#v", name, got, err, tt.want)
		}
	}
	for name, v := range map[string]any{
		"NaN": math.NaN(), "infinite": math.Inf(1), "placeholder": []any{"\ue000"}, "UTF-8": "\xff", "struct": struct{}{},
		"number": json.Number("x"), "key": map[string]any{"\ue000": 1}, "inside": map[string]any{"a": []any{make(chan int)}},
	} {
		if got, err := FromGo(v); err == nil {
			t.Errorf("FromGo of %s: got %#v, want an error", name, got)
		}
	}
}

func TestFromJSONTyped(t *testing.T) {
	const gpu = "object({name = string, mem = number, sriov = object({vfs = number})})"
	gpuType := typeOf(t, gpu)
	facts := typeOf(t, "object({gpus = list("+gpu+"), os = map(string), tags = set(string), free = any, ok = bool})")
	got, err := FromJSONTyped(
		[]byte(
			`{"gpus":[{"name":"H100","mem":"80","extra":1},{"sriov":null}],"os":{"id":"x"},"tags":null,"free":{"a":[1]},"more":[]}`,
		),
		facts,
	)
	noError(t, err)
	want := cty.ObjectVal(map[string]cty.Value{
		"gpus": cty.ListVal([]cty.Value{
			cty.ObjectVal(
				map[string]cty.Value{
					"name":  cty.StringVal("H100"),
					"mem":   cty.NumberIntVal(80),
					"sriov": value.Absent(gpuType.AttributeType("sriov")),
				},
			),
			value.Absent(gpuType),
		}),
		"os":   cty.MapVal(map[string]cty.Value{"id": cty.StringVal("x")}),
		"tags": cty.SetValEmpty(cty.String),
		"free": cty.ObjectVal(map[string]cty.Value{"a": cty.TupleVal([]cty.Value{cty.NumberIntVal(1)})}),
		"ok":   cty.NullVal(cty.Bool),
	})
	if !got.RawEquals(want) {
		t.Errorf("facts are %#v, want %#v", got, want)
	}
	for src, want := range map[string]string{
		`{"gpus":[{"mem":"many"}]}`: `.gpus[0].mem: a number is required`,
		`{"gpus":{}}`:               `.gpus: list of object required`,
		`{"os":[]}`:                 `.os: map of string required`,
		`{"os":{"a":{}}}`:           `.os.a: string required, but have object`,
		`[]`:                        `.: object required, but have tuple`,
		`{"ok":"\ue000"}`:           `the text holds the character U+E000`,
		`{`:                         `ends too early`,
	} {
		v, err := FromJSONTyped([]byte(src), facts)
		if err == nil || !strings.Contains(err.Error(), want) || !v.Type().Equals(facts) || v.IsKnown() {
			t.Errorf("%s is %#v, %v; want %q", src, v, err, want)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,null,true,"\u00e9"]}`, `[[[[`, `{"a":1,"a":2}`, `"\ue000"`, `1e999999999`, "\xff", `[]]`, ` "x" `, `{"":{"":[]}}`} {
		f.Add([]byte(s))
	}
	f.Add(bytes.Repeat([]byte("8"), 500))
	f.Fuzz(func(t *testing.T, src []byte) { decoded(t, src, DecodeJSON) })
}

func FuzzDecodeYAML(f *testing.F) {
	for _, s := range []string{"1.5: a\ntrue: b\n-1: c\n0x1F: d\n", "a: 0755\nb: 0o7\nc: 1_000\nd: 1:30\ne: " +
		"6.02e23\nf: 1e400\ng: 18446744073709551616\n", "a: [1, {b: ~}]\n", "- - - x\n", "a: &x [*x]", "a: |\n  [[[\n", "? [a]\n: b\n", "---\n---\n", "\"\\uE000\"", "<<: {a: 1}\n", "!!binary aGk=", "a: .nan", "2020-01-01", "a: 'x\n  y'\n", "%YAML 1.1\n---\na"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		decoded(t, src, DecodeYAML)
		v, err := DecodeYAML(src)
		if err != nil {
			return
		}
		// The kubelet would read the same.
		j, err := yaml.YAMLToJSONStrict(src)
		if err != nil {
			t.Fatalf("%q: got %#v, and error %v of sigs.k8s.io/yaml; want no error", src, v, err)
		}
		if again, err := DecodeJSON(j); err == nil && !again.RawEquals(v) {
			t.Errorf("%q: got %#v, want %s, as sigs.k8s.io/yaml reads it", src, v, j)
		}
	})
}

// decoded: what a decoder lets pass is plain, bounded, and comes back the same by way of Go and of JSON.
func decoded(t *testing.T, src []byte, decode func([]byte) (cty.Value, error)) {
	v, err := decode(src)
	if err != nil {
		if secret.HasPlaceholder(err.Error()) {
			t.Errorf("got message %s, want it without a placeholder", err)
		}
		return
	}
	_ = cty.Walk(v, func(p cty.Path, part cty.Value) (bool, error) {
		if len(p) > maxDepth+1 {
			t.Fatalf("%q: got depth %d, want at most maxDepth", src, len(p))
		}
		if part.IsMarked() || value.IsText(part) && secret.HasPlaceholder(part.AsString()) {
			t.Fatalf("%q: got a placeholder or a mark at %s, want none", src, value.FormatPath(p))
		}
		if n := len(p); n > 0 {
			if key, isKey := p[n-1].(cty.GetAttrStep); isKey && secret.HasPlaceholder(key.Name) {
				t.Fatalf("%q: got the key %q, want no placeholder in it", src, key.Name)
			}
		}
		return true, nil
	})
	g, err := ToGo(v)
	noError(t, err)
	back, err := FromGo(g)
	noError(t, err)
	if !back.RawEquals(v) {
		t.Errorf("%q to Go and back: got %#v, want %#v", src, back, v)
	}
	j, err := json.Marshal(g)
	noError(t, err)
	if again, err := DecodeJSON(j); err != nil && !errors.Is(err, errPlaceholderInput) ||
		err == nil && !again.RawEquals(v) {
		t.Errorf("%q to JSON and back: got %#v, %v; want the same value", src, again, err)
	}
}

func TestFindLoneSurrogate(t *testing.T) {
	for text, want := range map[string]int{
		``: -1, `"a"`: -1, `"\ud83d\ude00"`: -1, `"\\ud800"`: -1, `"\n\u00e9"`: -1, `"\ud83d\ude00\\"`: -1,
		`"\ud800"`: 1, `"x\udc00"`: 2, `"\ud800\ud83d\ude00"`: 1, `"\ud83d\ude00\ud83d"`: 13, `"\\\ud800"`: 3, `"\ud800\n"`: 1,
	} {
		if got := FindLoneSurrogate(text); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// TestFirstErrorOfAnObject converts an object with several errors repeatedly: maps have a random order.
func TestFirstErrorOfAnObject(t *testing.T) {
	object := map[string]any{}
	for _, name := range strings.Split("abcdefgh", "") {
		object[name] = "\xff"
	}
	places := map[string]bool{}
	for range 50 {
		_, err := FromGo(object)
		places[PathOf(err)] = true
	}
	if got := slices.Sorted(maps.Keys(places)); !slices.Equal(got, []string{".a"}) {
		t.Errorf("got errors at %v, want only .a", got)
	}
}
