package functions

import (
	"math/rand"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/testing/sample"
)

// randomTable returns an object without null, which TOML does not have.
func randomTable(r *rand.Rand, depth int) cty.Value {
	var withoutNull func(v cty.Value) cty.Value
	withoutNull = func(v cty.Value) cty.Value {
		switch {
		case v.IsNull():
			return cty.NumberFloatVal(0.5)
		case v.Type().IsObjectType() && v.LengthInt() > 0:
			inner := map[string]cty.Value{}
			for key, element := range v.AsValueMap() {
				inner[key] = withoutNull(element)
			}
			return cty.ObjectVal(inner)
		case v.Type().IsTupleType() && v.LengthInt() > 0:
			var inner []cty.Value
			for _, element := range v.AsValueSlice() {
				inner = append(inner, withoutNull(element))
			}
			return cty.TupleVal(inner)
		}
		return v
	}

	table := map[string]cty.Value{}
	for range r.Intn(5) {
		table[inputs[r.Intn(len(inputs))]] = withoutNull(randomValue(r, depth-1))
	}

	return cty.ObjectVal(table)
}

// TestTOMLEncodeReadsBack checks that a value is read back as what it was.
func TestTOMLEncodeReadsBack(t *testing.T) {
	first, step := sample.New(t).OneIn(10)
	r := rand.New(rand.NewSource(int64(first)))
	for i := first; i < 20000; i += step {
		v := randomTable(r, 4)
		want, err := codec.ToGo(v)
		noError(t, err)
		doc := encodeWith(t, tomlEncodeFunc(), v)

		var got any
		if err := toml.Unmarshal([]byte(doc), &got); err != nil {
			t.Fatalf("%v as TOML: got error %v, want none\n%s", want, err, doc)
		}
		read, err := codec.FromGo(got)
		noError(t, err)
		if !read.RawEquals(v) {
			t.Fatalf("got %#v, want %#v:\n%s", read, v, doc)
		}
	}
}

// TestTOMLEncodeForm pins the bytes that sites write into files: with other bytes every node has a new generation.
func TestTOMLEncodeForm(t *testing.T) {
	const want = `bool = true
empty = []
escapes = "\u0000 é 😀 ' \\ \t \r"
float = 1.5
int = -9223372036854775808
lines = "x\n  y\n"

['a table.with dots']
list = [1, 'two', [3]]

['a table.with dots'.inner]
[[tables]]
name = 'b'

[[tables]]
name = 'a'
`

	v := must(t, `{
		bool                = true
		empty               = []
		escapes             = "\u0000 é 😀 ' \\ \t \r"
		float               = 1.5
		int                 = -9223372036854775808
		lines               = "x\n  y\n"
		"a table.with dots" = { inner = {}, list = [1, "two", [3]] }
		tables              = [{ name = "b" }, { name = "a" }]
	}`, nil)

	if got := encodeWith(t, tomlEncodeFunc(), v); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
