package functions

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/table"
)

// inputs are strings that a YAML parser can take for another type, and strings that need care in a block scalar.
var inputs = []string{
	"",
	" ",
	"a",
	"yes",
	"~",
	"null",
	"1",
	"0x1f",
	"1:30",
	"2001-01-01",
	"- a",
	"a: b",
	"# a",
	"a #b",
	"é",
	"\x00",
	"\x1b",
	"\t",
	"a\tb",
	"\u0085",
	"\u2028",
	"\ufeff",
	"\U0001f600",
	"\"",
	"\\",
	"a\n",
	"a\nb",
	"a\nb\n",
	"a\nb\n\n",
	"\n",
	"\n\n",
	"\na",
	" a\nb",
	"a \nb",
	"a\n b\n  c",
	"a\n\n b",
	"a\n\tb",
	"a\n \nb",
	"a\r\nb",
	"---\na\n",
	"...\n",
	"# a\nb",
	"a\n#b\n",
	"a: |\n  b\n",
	"%TAG\nx",
	"a\u0085b\nc",
	"<&>\nx",
	strings.Repeat("long words ", 40),
	strings.Repeat("l", 300) + "\nx",
}

func randomValue(r *rand.Rand, depth int) cty.Value {
	kind := r.Intn(8)
	if depth == 0 {
		kind = r.Intn(5)
	}
	switch kind {
	case 0:
		return cty.NullVal(cty.DynamicPseudoType)
	case 1:
		return cty.BoolVal(r.Intn(2) == 0)
	case 2:
		return cty.NumberIntVal(r.Int63n(1<<50) - 1<<49)
	case 3, 4:
		return cty.StringVal(inputs[r.Intn(len(inputs))])
	case 5, 6:
		m := map[string]cty.Value{}
		for range r.Intn(4) {
			m[inputs[r.Intn(len(inputs))]] = randomValue(r, depth-1)
		}
		return cty.ObjectVal(m)
	}
	var l []cty.Value
	for range r.Intn(4) {
		l = append(l, randomValue(r, depth-1))
	}
	return cty.TupleVal(l)
}

// TestYAMLEncodeReadsBack checks that a value is read back as what it was, by the YAML 1.1 parser that the kubelet
// uses and by a YAML 1.2 parser.
func TestYAMLEncodeReadsBack(t *testing.T) {
	values := []cty.Value{
		cty.ListValEmpty(cty.String),
		cty.MapValEmpty(cty.String),
		cty.SetVal([]cty.Value{cty.StringVal("b"), cty.StringVal("a")}),
		cty.MapVal(map[string]cty.Value{"a": cty.ListVal([]cty.Value{cty.True})}),
	}
	for _, s := range inputs {
		values = append(values, cty.StringVal(s))
	}

	first, step := sample.New(t).OneIn(10)
	r := rand.New(rand.NewSource(int64(first)))
	for i := first; i < 20000; i += step {
		values = append(values, randomValue(r, 4))
	}

	for _, v := range values {
		want := decodeJSON(t, encodeWith(t, stdlib.JSONEncodeFunc, v))
		doc := encodeWith(t, ctyyaml.YAMLEncodeFunc, v)

		asJSON, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			t.Fatalf("%v as YAML 1.1: %v\n%s", want, err, doc)
		}

		if got := decodeJSON(t, string(asJSON)); !reflect.DeepEqual(got, want) {
			t.Fatalf("as YAML 1.1: got %v, want %v:\n%s", got, want, doc)
		}

		decoded, err := ctyyaml.YAMLDecodeFunc.Call([]cty.Value{cty.StringVal(doc)})
		if err != nil {
			t.Fatalf("%v as YAML 1.2: %v\n%s", want, err, doc)
		}

		if got := decodeJSON(t, encodeWith(t, stdlib.JSONEncodeFunc, decoded)); !reflect.DeepEqual(got, want) {
			t.Fatalf("as YAML 1.2: got %v, want %v:\n%s", got, want, doc)
		}
	}
}

func encodeWith(t *testing.T, f function.Function, v cty.Value) string {
	t.Helper()

	out, err := f.Call([]cty.Value{v})
	if err != nil {
		t.Fatalf("encode %#v: got error %v, want none", v, err)
	}

	return out.AsString()
}

func decodeJSON(t *testing.T, text string) (v any) {
	t.Helper()

	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %s: got error %v, want none", text, err)
	}

	return v
}

// TestYAMLEncodeQuotes checks that each string is in double quotes, so that no version of YAML takes it for another
// type. The last ones are read as other types only by some parsers of YAML 1.1.
func TestYAMLEncodeQuotes(t *testing.T) {
	for _, s := range table.YAML[[]string](t, `
- 'on'
- 'yes'
- 'y'
- 'N'
- 'true'
- '~'
- 'null'
- ''
- '1'
- '-1'
- '1e3'
- '1.'
- '.5'
- '.inf'
- '.NaN'
- '0o7'
- '017'
- '0x1f'
- '0b1'
- '1_000'
- 1:30
- 2001-01-01
- '<<'
- =
- '.5_0'
- 0x_
- 2001-12-14 21:59:43.10 -5
`) {
		want := `"` + s + `": "` + s + "\"\n"
		if got := encodeWith(
			t,
			ctyyaml.YAMLEncodeFunc,
			cty.ObjectVal(map[string]cty.Value{s: cty.StringVal(s)}),
		); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

// TestYAMLEncodeForm pins the bytes that sites write into files: with other bytes every node has a new generation.
func TestYAMLEncodeForm(t *testing.T) {
	const want = `"bool": true
"empty":
- []
- {}
- ""
"escapes": "\0\e\N é \U0001F600 \" \\ \t \r"
"float": 1.5
"int": 18446744073709551616
"lines": |
  x
    y

  z
"lines kept": |+
  a

"lines stripped": |-
  a
  b
"list":
- "b"
- - 1
  - 2
- "c": null
  "d":
    "e": "f"
"spaces first": |2-
   a
  b
`

	v := must(t, `{
		bool             = true
		empty            = [[], {}, ""]
		escapes          = "\u0000\u001b\u0085 é \U0001f600 \" \\ \t \r"
		float            = 1.5
		int              = 18446744073709551616
		lines            = "x\n  y\n\nz\n"
		"lines kept"     = "a\n\n"
		"lines stripped" = "a\nb"
		list             = ["b", [1, 2], { c = null, d = { e = "f" } }]
		"spaces first"   = " a\nb"
	}`, nil)

	if got := encodeWith(t, ctyyaml.YAMLEncodeFunc, v); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
