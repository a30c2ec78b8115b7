package value

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestNullsToUnknown separates what fails because a fact is null from what is wrong on every machine.
func TestNullsToUnknown(t *testing.T) {
	gpu := typeOf(t, "object({name = string, mem = number, sriov = object({vfs = number})})")
	vars := map[string]cty.Value{
		"gpu": Absent(
			gpu,
		),
		"gpus":    cty.ListVal([]cty.Value{Absent(gpu)}),
		"none":    cty.ListValEmpty(gpu),
		"nothing": cty.NullVal(cty.List(cty.String)),
		"nogpus": cty.NullVal(
			cty.List(gpu),
		),
		"obj":   cty.NullVal(gpu),
		"s":     cty.NullVal(cty.String),
		"holds": cty.ListVal([]cty.Value{cty.StringVal("a"), cty.NullVal(cty.String)}),
		"l":     cty.ListVal([]cty.Value{cty.StringVal("a")}),
		"m":     cty.MapVal(map[string]cty.Value{"a": cty.NullVal(cty.String)}),
		"sec":   Credential("c"),
	}
	relaxed := map[string]cty.Value{}
	for name, v := range vars {
		relaxed[name] = NullsToUnknown(v)
	}
	yes := []string{
		`gpu.mem >= 25`,
		`-gpu.mem`,
		`!tobool(gpu.name)`,
		`gpu.mem > 1 ? "a" : "b"`,
		`tobool(s) ? 1 : 2`,
		`"a-${gpu.name}"`,
		`{ (gpu.name) = 1 }`,
		`upper(gpu.name)`,
		`length(nothing)`,
		`l[gpu.mem]`,
		`nothing[0]`,
		`obj.name`,
		`obj.sriov.vfs`,
		`(true ? obj : obj).name`,
		`[for x in nothing : x]`,
		`[for g in gpus : g.mem * 2]`,
		`[for g in gpus : g if g.mem > 1]`,
		`{ for g in gpus : g.name => 1 }`,
		`"%{ for g in gpus }${g.name}%{ endfor }"`,
		`"%{ for x in nothing }${x}%{ endfor }"`,
		`join(",", holds)`,
		`join(",", l, holds)`,
		`sort(holds)`,
		`format("%d", gpu.mem)`,
		`join(",", [for g in gpus : g.name])`,
		`try(upper(gpu.name), lower(gpu.name))`,
		`try(none[0].name, upper(gpu.name))`,
		`where(nogpus, {name = "a"})`,
		`max(gpu.mem, 1)`,
		`jsondecode(s)`,
		`slug("${gpu.name}-x")`,
		`concat(l, nothing)`,
		`sha256(gpu.name)`,
		`nothing[*]`,
		`max([for g in gpus : g.mem]...)`,
		`obj["name"]`,
	}
	no := []string{
		`gpu.nmae`,
		`none[0].name`,
		`l[5]`,
		`upper(l)`,
		`length(gpu, 1)`,
		`upper()`,
		`uper(gpu.name)`,
		`1 + "a"`,
		`[for x in 1 : x]`,
		`tonumber("a")`,
		`parseint("zz", 10)`,
		`upper(holds)`,
		`range(1, 2, 0)`,
		`regex("x", "y")`,
		`l["a"]`,
		`{}.a`,
		`upper(gpu)`,
		`join(1, holds, 2)`,
		`try({}.a, [][0])`,
		`m.b`,
		`tonumber(holds)`,
	}
	for want, srcs := range map[bool][]string{true: yes, false: no} {
		for _, src := range srcs {
			v, diags := evaluate(t, src, vars)
			if !diags.HasErrors() {
				t.Errorf("%s: got %#v, want an error", src, v)
				continue
			}
			_, diags = evaluate(t, src, relaxed)
			if got := !diags.HasErrors(); got != want {
				t.Errorf("%s with unknowns for nulls: got works = %t (%v), want %t", src, got, diags, want)
			}
		}
	}
}

// TestNullInLogic gives every operator of logic, and what takes a condition, each of true, false and null. Null
// counts as false for &&, as in HCL; elsewhere it is an error unless the other operand decides.
func TestNullInLogic(t *testing.T) {
	cases := map[string]string{
		"null && null": "false", "true && null": "false", "null && true": "false", "false && null": "false",
		"null && false": "false", "null || null": "error", "false || null": "error", "null || false": "error",
		"true || null": "true", "null || true": "true", "!null": "error", "!(null || false)": "error",
		"null ? true : false": "error", "length([for x in [1] : x if null]) == 0": "error",
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
			if !diags.HasErrors() {
				got = fmt.Sprint(v.True())
			}
			if got != want {
				t.Errorf("%s: got %s (%v), want %s", src, got, diags, want)
			}
		}
	}
}
