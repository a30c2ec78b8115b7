package value

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// What Convert does quickly is what cty does slowly.
func TestConvertIsThatOfCty(t *testing.T) {
	object := func(n int64) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"a": cty.NumberIntVal(n), "b": cty.StringVal("b")})
	}
	wanted := []cty.Type{
		cty.List(
			cty.String,
		),
		cty.Set(cty.String),
		cty.List(cty.Number),
		cty.List(cty.DynamicPseudoType),
		cty.Set(cty.DynamicPseudoType),
		cty.List(cty.List(cty.String)),
		cty.Map(cty.String),
		cty.String,
		cty.Tuple([]cty.Type{cty.String}),
		cty.List(cty.ObjectWithOptionalAttrs(map[string]cty.Type{"a": cty.String, "c": cty.Bool}, []string{"c"})),
	}
	for _, v := range []cty.Value{
		cty.EmptyTupleVal,
		cty.TupleVal([]cty.Value{cty.StringVal("1"), cty.StringVal("2"), cty.StringVal("1")}),
		cty.TupleVal([]cty.Value{cty.StringVal("1"), cty.NumberIntVal(2)}),
		cty.TupleVal([]cty.Value{cty.StringVal("1").Mark("m"), cty.StringVal("2")}),
		cty.TupleVal([]cty.Value{cty.StringVal("1"), cty.StringVal("2")}).Mark("m"),
		cty.TupleVal([]cty.Value{cty.UnknownVal(cty.String), cty.StringVal("2"), cty.NullVal(cty.String)}),
		cty.TupleVal([]cty.Value{cty.DynamicVal, cty.DynamicVal}),
		cty.TupleVal([]cty.Value{cty.NullVal(cty.DynamicPseudoType), cty.StringVal("2")}),
		cty.TupleVal([]cty.Value{cty.EmptyTupleVal, cty.EmptyTupleVal}),
		cty.TupleVal([]cty.Value{cty.TupleVal([]cty.Value{cty.True}), cty.TupleVal([]cty.Value{cty.False})}),
		cty.TupleVal([]cty.Value{object(1), object(2)}),
		cty.NullVal(cty.Tuple([]cty.Type{cty.String})), cty.UnknownVal(cty.Tuple([]cty.Type{cty.String})),
		cty.ListVal([]cty.Value{cty.StringVal("1")}), cty.StringVal("1"), cty.DynamicVal,
	} {
		for _, want := range wanted {
			theirs, theirErr := convert.Convert(v, want)
			ours, err := Convert(v, want)
			if (err == nil) != (theirErr == nil) || err == nil && !ours.RawEquals(theirs) {
				t.Errorf("%#v as %#v: %#v (%v), cty makes %#v (%v)", v, want, ours, err, theirs, theirErr)
			}
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	many := make([]cty.Value, 10_000)
	for i := range many {
		many[i] = cty.StringVal("0123456789")
	}
	v := cty.TupleVal(many)
	for b.Loop() {
		if _, err := Convert(v, cty.List(cty.String)); err != nil {
			b.Fatal(err)
		}
	}
}
