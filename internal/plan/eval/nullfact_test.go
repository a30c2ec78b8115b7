package eval_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// TestFactCaused separates what fails because a fact is null from what is wrong whatever the facts are.
func TestFactCaused(t *testing.T) {
	gpu := cty.Object(map[string]cty.Type{
		"name":  cty.String,
		"mem":   cty.Number,
		"sriov": cty.Object(map[string]cty.Type{"vfs": cty.Number}),
	})
	vars := map[string]cty.Value{
		"gpu":     value.Absent(gpu),
		"gpus":    cty.ListVal([]cty.Value{value.Absent(gpu)}),
		"none":    cty.ListValEmpty(gpu),
		"nothing": cty.NullVal(cty.List(cty.String)),
		"nogpus":  cty.NullVal(cty.List(gpu)),
		"obj":     cty.NullVal(gpu),
		"s":       cty.NullVal(cty.String),
		"holds":   cty.ListVal([]cty.Value{cty.StringVal("a"), cty.NullVal(cty.String)}),
		"l":       cty.ListVal([]cty.Value{cty.StringVal("a")}),
		"m":       cty.MapVal(map[string]cty.Value{"a": cty.NullVal(cty.String)}),
		"nics": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{
			"address": cty.StringVal("b"), "driver": cty.NullVal(cty.String),
		})}),
		"sec": secret.Credential("c"),
	}
	yes := table.Lines(`
gpu.mem >= 25
-gpu.mem
!tobool(gpu.name)
gpu.mem > 1 ? "a" : "b"
tobool(s) ? 1 : 2
"a-${gpu.name}"
{ (gpu.name) = 1 }
upper(gpu.name)
length(nothing)
l[gpu.mem]
nothing[0]
obj.name
obj.sriov.vfs
(true ? obj : obj).name
[for x in nothing : x]
[for g in gpus : g.mem * 2]
[for g in gpus : g if g.mem > 1]
{ for g in gpus : g.name => 1 }
"%{ for g in gpus }${g.name}%{ endfor }"
"%{ for x in nothing }${x}%{ endfor }"
join(",", holds)
join(",", l, holds)
sort(holds)
format("%d", gpu.mem)
join(",", [for g in gpus : g.name])
try(upper(gpu.name), lower(gpu.name))
try(none[0].name, upper(gpu.name))
where(nogpus, {name = "a"})
max(gpu.mem, 1)
jsondecode(s)
slug("${gpu.name}-x")
concat(l, nothing)
sha256(gpu.name)
nothing[*]
max([for g in gpus : g.mem]...)
obj["name"]
upper(m[local.key])
"x${local.m[local.key]}"
[for k in ["a"] : upper(local.m[k])]
upper(local.holds[local.one])
l[local.holds[local.one]]
`)
	no := table.Lines(`
gpu.nmae
none[0].name
l[5]
upper(l)
upper()
1 + "a"
[for x in 1 : x]
tonumber("a")
parseint("zz", 10)
range(1, 2, 0)
regex("x", "y")
l["a"]
{}.a
join(1, holds, 2)
try({}.a, [][0])
m.b
length(gpu, 1)
uper(gpu.name)
upper(holds)
upper(gpu)
tonumber(holds)
regex("zzz", join(",", [for n in nics : n.address]))
nics[local.one - 1].vendor
local.holds[local.one + 1]
upper(local.no[local.key]) == m.a
"${m.a == null}${upper(local.no.a)}"
`)
	detect := typed{stages.Spec{Phase: schema.Gather, Block: schema.Block{Type: "detect-hw"}}, cty.DynamicPseudoType}
	text := `stage "detect-hw" "n" {}
locals {
  key   = "a"
  one   = 1
  no    = { a = null }
  m     = stage.detect-hw.n.m
  holds = stage.detect-hw.n.holds
}
`
	site, diags := lang.Parse([]tape.SiteFile{{Name: "a.hcl", Text: text}},
		lang.LoadOptions{Stages: []stages.Stage{detect}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	names := regexp.MustCompile(`(^|[^.\w"])(gpus?|none|nothing|nogpus|obj|s|holds|l|m|nics)\b`)
	for want, srcs := range map[bool][]string{true: yes, false: no} {
		for _, src := range srcs {
			x, diags := hclsyntax.ParseExpression(
				[]byte(names.ReplaceAllString(src, "${1}stage.detect-hw.n.$2")), "a.hcl", hcl.InitialPos)
			if diags.HasErrors() {
				t.Fatalf("%s: %s", src, diags)
			}
			e := eval.New(context.Background(), site, nil).
				With(map[string]cty.Value{"detect-hw.n": cty.ObjectVal(vars)})
			for how, scope := range map[string]*eval.Eval{"": e, " with a trace": e.WithTrace()} {
				v, diags := scope.Scope("a").Value(schema.Spec{Type: cty.DynamicPseudoType}, x)
				if !diags.HasErrors() {
					t.Errorf("%s%s: got %#v, want an error", src, how, v)
					continue
				}
				if got := eval.FactCaused(diags[0]); got != want {
					t.Errorf("%s%s: got %t that a null fact caused %v, want %t", src, how, got, diags, want)
				}
			}
		}
	}
}
