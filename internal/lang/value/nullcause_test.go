package value

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// TestNullCause: what fails because a fact is null is told from what is wrong on every machine.
func TestNullCause(t *testing.T) {
	gpu := cty.Object(map[string]cty.Type{"name": cty.String, "mem": cty.Number, "sriov": cty.Object(map[string]cty.Type{"vfs": cty.Number})})
	vars := map[string]cty.Value{
		"gpu": Absent(gpu), "gpus": cty.ListVal([]cty.Value{Absent(gpu)}), "none": cty.ListValEmpty(gpu), "nothing": cty.NullVal(cty.List(cty.String)),
		"obj": cty.NullVal(gpu), "s": cty.NullVal(cty.String), "holds": cty.ListVal([]cty.Value{cty.StringVal("a"), cty.NullVal(cty.String)}), "l": cty.ListVal([]cty.Value{cty.StringVal("a")}),
		"m": cty.MapVal(map[string]cty.Value{"a": cty.NullVal(cty.String)}), "sec": Credential("c"),
	}
	yes := []string{
		`gpu.mem >= 25`, `-gpu.mem`, `!tobool(gpu.name)`, `gpu.mem > 1 ? "a" : "b"`, `tobool(s) ? 1 : 2`, `"a-${gpu.name}"`, `{ (gpu.name) = 1 }`,
		`upper(gpu.name)`, `length(nothing)`, `l[gpu.mem]`, `nothing[0]`, `obj.name`, `obj.sriov.vfs`, `(true ? obj : obj).name`, `[for x in nothing : x]`,
		`[for g in gpus : g.mem * 2]`, `[for g in gpus : g if g.mem > 1]`, `{ for g in gpus : g.name => 1 }`, `"%{ for g in gpus }${g.name}%{ endfor }"`,
		`"%{ for x in nothing }${x}%{ endfor }"`, `join(",", holds)`, `join(",", l, holds)`, `sort(holds)`, `format("%d", gpu.mem)`, `join(",", [for g in gpus : g.name])`,
		`try(upper(gpu.name), lower(gpu.name))`, `try(none[0].name, upper(gpu.name))`, `where(nothing, {a = 1})`, `max(gpu.mem, 1)`, `jsondecode(s)`, `upper(s...)`,
		`slug("${gpu.name}-x")`, `concat(l, nothing)`, `sha256(gpu.name)`, `nothing[*]`, `max([for g in gpus : g.mem]...)`, `obj["name"]`,
	}
	no := []string{
		`gpu.nmae`, `none[0].name`, `l[5]`, `upper(l)`, `length(gpu, 1)`, `upper()`, `uper(gpu.name)`, `1 + "a"`, `[for x in 1 : x]`, `tonumber("a")`, `parseint("zz", 10)`,
		`upper(holds)`, `range(1, 2, 0)`, `regex("x", "y")`, `l["a"]`, `{}.a`, `upper(gpu)`, `join(1, holds, 2)`, `try({}.a, [][0])`, `sec == s`, `m.b`, `tonumber(holds)`,
	}
	for want, srcs := range map[bool][]string{true: yes, false: no} {
		for _, src := range srcs {
			v, diags := evaluate(t, src, vars)
			if !diags.HasErrors() {
				t.Errorf("%s is %#v, no error", src, v)
				continue
			}
			got := false
			for _, d := range diags {
				got = got || NullCause(d)
			}
			if got != want {
				t.Errorf("%s: NullCause is %t: %s", src, got, diags)
			}
		}
	}
	if NullCause(nil) || NullCause(&hcl.Diagnostic{Severity: hcl.DiagError}) || NullCause(&hcl.Diagnostic{Severity: hcl.DiagWarning}) {
		t.Error("a diagnostic that says nothing has a null cause")
	}
}

// TestNullInLogic gives every operator of logic, and what takes a condition, each of true, false and null. Null is an
// error that has a null cause, unless the other operand decides.
func TestNullInLogic(t *testing.T) {
	type want = string
	cases := map[string]want{
		"null && null": "null", "true && null": "null", "null && true": "null", "false && null": "false", "null && false": "false",
		"null || null": "null", "false || null": "null", "null || false": "null", "true || null": "true", "null || true": "true",
		"!null": "null", "!(true && null)": "null", "!(null || false)": "null", "(null && true) || true": "true",
		"null ? true : false": "null", "(true && null) ? true : false": "null",
		"length([for x in [1] : x if null]) == 0": "null", "length([for x in [1] : x if true && null]) == 0": "null",
		"\"%{ if true && null }a%{ endif }\" == \"\"": "null",
	}
	for a, x := range map[string]bool{"true": true, "false": false} {
		for b, y := range map[string]bool{"true": true, "false": false} {
			cases[a+" && "+b], cases[a+" || "+b] = fmt.Sprint(x && y), fmt.Sprint(x || y)
		}
		cases["!"+a] = fmt.Sprint(!x)
	}

	vars := map[string]cty.Value{"yes": cty.True, "no": cty.False, "nothing": cty.NullVal(cty.Bool)}
	facts := strings.NewReplacer("true", "yes", "false", "no", "null", "nothing")
	for literals, want := range cases {
		for _, src := range []string{literals, facts.Replace(literals)} {
			v, diags := evaluate(t, src, vars)
			got := "error"
			switch {
			case !diags.HasErrors():
				got = fmt.Sprint(v.True())
			case NullCause(diags[0]):
				got = "null"
			}
			if got != want {
				t.Errorf("%s: got %s (%v), want %s", src, got, diags, want)
			}
		}
	}
}

// TestNullKeyIsPointedAt: of an item of an object whose key is null, the key is the place.
func TestNullKeyIsPointedAt(t *testing.T) {
	_, diags := evaluate(t, `{ a = 1, (nothing) = "value" }`, map[string]cty.Value{"nothing": cty.NullVal(cty.String)})
	if len(diags) != 1 || diags[0].Subject.Start.Column < 10 || diags[0].Subject.Start.Column > 11 || !NullCause(diags[0]) {
		t.Errorf("got %v, want one error with a null cause at column 10 or 11", diags)
	}
}
