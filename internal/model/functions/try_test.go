package functions

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestTryEvaluatesOnce: the library's try takes 2^depth evaluations of the innermost arm.
func TestTryEvaluatesOnce(t *testing.T) {
	for _, wrap := range table.YAML[[]struct{ Open, Shut string }](t, `
- {open: try(, shut: ', 1)'}
- {open: 'try({}.a, ', shut: )}
- {open: can(, shut: )}
- {open: '[for x in [1] : try(', shut: ', x)][0]'}
- {open: '{ ("k") = try(', shut: ', 2) }'}
- {open: 'true ? try(', shut: ', 1) : 0'}
`) {
		n := 0
		funcs := All()
		funcs["probe"] = function.New(
			&function.Spec{
				Type: function.StaticReturnType(cty.Number),
				Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
					n++
					return cty.NumberIntVal(1), nil
				},
			},
		)
		const depth = 24
		src := strings.Repeat(wrap.Open, depth) + "probe()" + strings.Repeat(wrap.Shut, depth)
		_, diags := parse(t, src).Value(&hcl.EvalContext{Functions: funcs})
		if diags.HasErrors() || n != 1 {
			t.Errorf("%s…%s nested %d deep evaluates its inside: got %d times, %v; want once",
				wrap.Open, wrap.Shut, depth, n, diags)
		}
	}
}

func TestTryWithUnknowns(t *testing.T) {
	obj := cty.Object(map[string]cty.Type{"name": cty.String})
	vars := map[string]cty.Value{
		"name": cty.UnknownVal(cty.String), "num": cty.UnknownVal(cty.Number), "list": cty.UnknownVal(cty.List(obj)),
		"dyn": cty.DynamicVal, "sec": secret.Credential("c"),
	}
	tests := []struct {
		src  string
		want cty.Type
	}{
		{`try(list[0].name, null)`, cty.String},      // an untyped null fits any type
		{`try(num, "none")`, cty.String},             // the type of both
		{`try(num, name, 1)`, cty.String},            // of all
		{`try(num, 1, "x")`, cty.Number},             // the second arm is never passed over
		{`try(name, {}.a)`, cty.String},              // an arm with an error has no type
		{`try(name, [1])`, cty.DynamicPseudoType},    // nothing in common
		{`try(dyn.a, "x")`, cty.DynamicPseudoType},   // not even one type
		{`try(name, sec)`, cty.String},               // an unknown text holds no secret yet
		{`try({a = name}, {a = "x"}).a`, cty.String}, // known in part only
		{`can(name)`, cty.Bool},                      // whether it works depends on the answer
		{`can("${name}${sec}")`, cty.Bool},           // and the result reveals no part of the secret
		{`where(try(list, []), {name = "a"})`, cty.List(obj)},
	}
	for _, tt := range tests {
		v := must(t, tt.src, vars)
		if v.IsKnown() || !v.Type().Equals(tt.want) || v.ContainsMarked() {
			t.Errorf("%s is %#v, want an unknown %s without marks", tt.src, v, tt.want.FriendlyName())
		}
	}
}

func TestTryTellsUnsupportedAttributes(t *testing.T) {
	gpus := cty.UnknownVal(cty.List(cty.Object(map[string]cty.Type{"name": cty.String})))
	vars := map[string]cty.Value{"gpus": gpus, "i": cty.UnknownVal(cty.Number)}
	for src, want := range table.YAML[map[string]int](t, `
'try(gpus[i].nmae, null)': 1
'try(gpus[0].nmae, gpus[0].name)': 1
# looked at for its type
'try(gpus[0].name, gpus[0].nmae)': 1
'try(try(gpus[0].nmae, 1), null)': 1
'can(gpus[0].nmae)': 1
'try(gpus[0].name, null)': 0
'try(where(gpus, {name = "x"})[0].nmae, null)': 1
# no attribute
'try([][0], null)': 0
`) {
		var unsupported []string
		v, diags := evaluateWith(
			t,
			src,
			vars,
			Checking{OnUnsupported: func(d *hcl.Diagnostic) { unsupported = append(unsupported, d.Summary) }},
		)
		if len(unsupported) != want || diags.HasErrors() {
			t.Errorf("%s: got messages %q, want %d (%#v, %v)", src, unsupported, want, v, diags)
		}
	}
}

// TestTryDoesNotHideRefusals: also not through other expressions and through try itself.
func TestTryDoesNotHideRefusals(t *testing.T) {
	vars := map[string]cty.Value{"sec": secret.Credential("c"), "l": cty.ListVal([]cty.Value{cty.StringVal("a")})}
	for _, src := range table.Lines(`
sec == "a"
sec != null
!sec
sec ? 1 : 2
l[sec]
{ (sec) = 1 }
{ "${sec}" = 1 }
{ "k${sec}" = 1 }
[for x in l : x if sec == "a"]
format("%s", sec)
merge({a = sec}, {})
sha256(sec)
substr(sec, 0, 1)
join(sec, l)
coalesce(sec, "x")
{ for x in [sec] : x => 1 }
[for x in [{a = sec}] : x if x.a == "a"]
[for x in l : [for y in [sec] : y == x]]
false ? upper(sec) : ""
[for x in l : x if sec]
{ for x in l : sec => x }
"%{ if sec }a%{ endif }"
"%{ for x in [sec] }%{ if x == "a" }b%{ endif }%{ endfor }"
upper(sec)
[for x in [sec] : upper(x)]
[{a = sec}][*].a == []
length([sec]...)
(sec) > 1
sec + 1
{a = sec} == {a = "x"}
l[upper(sec)]
jsonencode(upper(sec))
`) {
		for _, form := range []string{"%", "try(%, 1)", "can(%)", "try(try(%, 1), 2)", "[try(%, 1)]", "try([can(%)], 1)", "coalesce(null, try(%, 1))"} {
			full := strings.Replace(form, "%", src, 1)
			v, diags := evaluate(t, full, vars)
			if !isSecretRefused(diags) {
				t.Errorf("%s is %#v, %v; want a refusal", full, v, diags)
			}
			for _, d := range diags {
				if secret.HasPlaceholder(d.Summary+d.Detail) || !strings.Contains(d.Detail, `"c"`) && IsSecretRefused(d) {
					t.Errorf("%s: got message %q, want the name of the credential and no placeholder", full, d.Detail)
				}
			}
		}
	}
	for src, want := range map[string]cty.Value{
		`can(sec)`: cty.True, `can(sec.a)`: cty.False, `try(sec.a, "b")`: cty.StringVal("b"), `{ sec = 1 }.sec`: cty.NumberIntVal(1),
		`{ "sec" = 1 }.sec`: cty.NumberIntVal(1), `[{a = sec, b = 1}][*].b`: cty.TupleVal([]cty.Value{cty.NumberIntVal(1)}),
	} {
		if v := must(t, src, vars); !v.RawEquals(want) {
			t.Errorf("%s is %#v, want %#v", src, v, want)
		}
	}
}
