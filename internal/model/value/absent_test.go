package value_test

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/value"
)

func TestAbsentAndUnknown(t *testing.T) {
	typ := cty.Object(map[string]cty.Type{
		"l": cty.List(cty.String), "m": cty.Map(cty.Number), "s": cty.Set(cty.Bool), "n": cty.Number,
		"o": cty.Object(map[string]cty.Type{"x": cty.String, "l": cty.List(cty.String)}),
		"t": cty.Tuple([]cty.Type{cty.String}), "d": cty.DynamicPseudoType,
	})
	a := value.Absent(typ)
	if !a.Type().Equals(typ) || !a.IsWhollyKnown() {
		t.Errorf("Absent: got %#v, want a known value of the type", a)
	}
	evaluate := func(src string, vars map[string]cty.Value) (cty.Value, hcl.Diagnostics) {
		e, diags := hclsyntax.ParseExpression([]byte(src), "site.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%s: got %s, want no error", src, diags)
		}
		return e.Value(&hcl.EvalContext{Variables: vars, Functions: functions.All()})
	}
	must := func(src string, vars map[string]cty.Value) cty.Value {
		v, diags := evaluate(src, vars)
		if diags.HasErrors() {
			t.Errorf("%s: got %s, want no error", src, diags)
		}
		return v
	}
	vars := map[string]cty.Value{"a": a, "u": value.UnknownOutput(typ)}
	for src, want := range map[string]string{
		"length(a.l) + length(a.m) + length(a.s) + length(a.o.l)": "0", "a.o.x": "tostring(null)", "a.n": "tonumber(null)", "a.t[0]": "tostring(null)", "a.d": "null",
	} {
		if v, w := must(src, vars), must(want, vars); !v.RawEquals(w) {
			t.Errorf("%s is %#v, want %#v", src, v, w)
		}
	}
	u := vars["u"]
	if !u.IsKnown() || !u.Type().Equals(typ) {
		t.Errorf("UnknownOutput: got %#v, want a known object of the type", u)
	}
	for src, want := range map[string]cty.Value{
		"u.o == null": cty.False, "u.l == null": cty.False, // objects and collections are there
		"u.n == null": cty.UnknownVal(cty.Bool).RefineNotNull(), "u.o.x": cty.UnknownVal(cty.String), "u.d.x": cty.DynamicVal,
	} {
		if v := must(src, vars); !v.RawEquals(want) {
			t.Errorf("%s is %#v, want %#v", src, v, want)
		}
	}
	if _, diags := evaluate("u.o.y", vars); !diags.HasErrors() {
		t.Error("a misspelt attribute of an unknown output: got no error, want one")
	}
}
