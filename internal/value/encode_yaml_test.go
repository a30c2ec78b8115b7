package value

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"sigs.k8s.io/yaml"
)

// texts are those that YAML likes to read as something else.
var texts = []string{"", " ", "a", "yes", "~", "null", "1", "0x1f", "1:30", "2001-01-01", "- a", "a: b", "# a", "a #b", "é", "\x00", "\x1b", "\t", "a\tb", "\u0085", "\u2028", "\ufeff", "\U0001f600", "\"", "\\",
	"a\n", "a\nb", "a\nb\n", "a\nb\n\n", "\n", "\n\n", "\na", " a\nb", "a \nb", "a\n b\n  c", "a\n\n b", "a\n\tb", "a\n \nb", "a\r\nb", "---\na\n", "...\n", "# a\nb", "a\n#b\n", "a: |\n  b\n", "%TAG\nx", "a\u0085b\nc", "<&>\nx",
	strings.Repeat("long words ", 40), strings.Repeat("l", 300) + "\nx"}

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
		return cty.StringVal(texts[r.Intn(len(texts))])
	case 5, 6:
		m := map[string]cty.Value{}
		for range r.Intn(4) {
			m[texts[r.Intn(len(texts))]] = randomValue(r, depth-1)
		}
		return cty.ObjectVal(m)
	}
	var l []cty.Value
	for range r.Intn(4) {
		l = append(l, randomValue(r, depth-1))
	}
	return cty.TupleVal(l)
}

// TestYAMLEncodeReadsBack: what is written is read as what it was, by the parser that the kubelet reads with.
func TestYAMLEncodeReadsBack(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	values := []cty.Value{cty.ListValEmpty(cty.String), cty.MapValEmpty(cty.String), cty.SetVal([]cty.Value{cty.StringVal("b"), cty.StringVal("a")}), cty.MapVal(map[string]cty.Value{"a": cty.ListVal([]cty.Value{cty.True})})}
	for _, s := range texts {
		values = append(values, cty.StringVal(s))
	}
	for range 20000 {
		values = append(values, randomValue(r, 4))
	}
	for _, v := range values {
		asJSON, err := stdlib.JSONEncode(v)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := yamlEncode().Call([]cty.Value{v})
		if err != nil {
			t.Fatal(err)
		}
		back, err := yaml.YAMLToJSONStrict([]byte(doc.AsString()))
		if err != nil {
			t.Fatalf("%s cannot be read: %v\n%s", asJSON.AsString(), err, doc.AsString())
		}
		var want, got any
		if err := json.Unmarshal([]byte(asJSON.AsString()), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(back, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("%s is read as %s:\n%s", asJSON.AsString(), back, doc.AsString())
		}
	}
}

// TestYAMLEncodeForm: what people see in the files that they write with it.
func TestYAMLEncodeForm(t *testing.T) {
	s := cty.StringVal
	list := func(v ...cty.Value) cty.Value { return cty.TupleVal(v) }
	object := func(k string, v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{k: v}) }
	for want, v := range map[string]cty.Value{
		"\"a\":\n  \"b\":\n  - \"c\"\n  - \"d\": 1.5\n    \"e\": |\n      x\n      y\n": object("a", object("b", list(s("c"), cty.ObjectVal(map[string]cty.Value{"d": cty.NumberFloatVal(1.5), "e": s("x\ny\n")})))),
		"- - 1\n  - 2\n- []\n- {}\n": list(list(cty.NumberIntVal(1), cty.NumberIntVal(2)), cty.EmptyTupleVal, cty.EmptyObjectVal),
		"\"a\": []\n":                object("a", cty.EmptyTupleVal),
		"|-\n  a\n\n  b\n":           s("a\n\nb"),
		"\"a\\tb\"\n":                s("a\tb"),
		"- \"\\u0000\\u001b\\u0085\"\n- \"😀 é\"\n- \" a\\nb\"\n- \"\\n\"\n- \"" + strings.Repeat("long ", 40) + "\"\n": list(s("\x00\x1b\u0085"), s("😀 é"), s(" a\nb"), s("\n"), s(strings.Repeat("long ", 40))),
		"null\n":                   cty.NullVal(cty.String),
		"- |+\n  a\n\n- \"<b>\"\n": list(s("a\n\n"), s("<b>")),
	} {
		got, err := yamlEncode().Call([]cty.Value{v})
		if err != nil || got.AsString() != want {
			t.Errorf("%v\ngot\n%swant\n%s", err, got.AsString(), want)
		}
	}
}
