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

// TestSecretsInLoopsAndSets refuses a secret as the key of a set's element, in a set, and in the body of a loop that
// has no element on this machine.
func TestSecretsInLoopsAndSets(t *testing.T) {
	vars := map[string]cty.Value{
		"sec":  secret.Credential("c"),
		"list": cty.TupleVal([]cty.Value{secret.Credential("c"), cty.StringVal("b")}),
		"set":  cty.SetVal([]cty.Value{secret.Credential("c"), cty.StringVal("b")}),
	}
	for _, src := range table.Lines(`
join(",", [for k, v in set : k == "x" ? "y" : "n"])
[for k, v in set : sha256(k)]
jsonencode({for k, v in set : k => "a"})
"%{ for k, v in set }%{ if k == "x" }e%{ endif }%{ endfor }"
jsonencode(false ? toset(["a"]) : list)
jsonencode(false ? {a = toset(["a"])} : {a = list})
join(",", true ? list : toset(["a"]))
jsonencode([for x in [] : upper(sec)])
{ for x in [] : sec => 1 }
[for x in {} : x == sec]
[for x in [] : x if sec]
can([for x in [] : x if sec])
[for x in null : upper(sec)]
length(sec)
length([sec]...)
length(toset([sec]))
keys({ for x in ["a"] : sec => x })
lookup({ a = "b" }, sec, "c")
lookup({ a = sec }, "a", "c") == "d"
keys(sec)
[for x in [] : [for y in x : upper(sec)]]
"%{ for x in [] }${upper(sec)}%{ endfor }"
`) {
		if v, diags := evaluate(t, src, vars); !isSecretRefused(diags) {
			t.Errorf("%s: got %#v, %v; want a refusal", src, v, diags)
		}
	}

	for src, want := range table.YAML[map[string]string](t, `
'jsonencode([for x in [] : [sec, upper(x)]])': '"[]"'
'[for x in [] : { a = sec }]': '[]'
'can(true ? toset(["a"]) : toset(["b"]))': 'true'
'length([for k, v in ["a"] : k == "x"])': '1'
'[for k, v in { a = sec } : k == "a" ? 1 : 2]': '[1]'
'[for k, v in [sec, "b"] : k > 0 ? "y" : "n"]': '["n", "y"]'
'true ? "a" : sec': '"a"'
'length(false ? toset(["a"]) : ["b"])': '1'
'length([sec, "a"])': '2'
'length({ a = { b = sec } })': '1'
'contains(keys({ a = sec }), "b")': 'false'
'lookup({ a = sec, b = "c" }, "b", "")': '"c"'
'lookup({ a = { b = sec } }, "c", null)': 'null'
'[for x in ["a"] : "${upper(x)}" if x != "b"]': '["A"]'
`) {
		got, _ := secret.Plain(must(t, src, vars))
		if !got.RawEquals(must(t, want, nil)) {
			t.Errorf("%s: got %#v, want %s", src, got, want)
		}
	}
}

// TestCheckSecretsEvaluatesLittle counts how often an expression without secrets is evaluated if it is next to one.
func TestCheckSecretsEvaluatesLittle(t *testing.T) {
	calls := 0
	functions := All()
	functions["count"] = function.New(&function.Spec{
		Type: function.StaticReturnType(cty.Number),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
			calls++
			return cty.NumberIntVal(1), nil
		},
	})
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"sec": secret.Credential("c")}, Functions: functions}
	sum := strings.Repeat("count() + ", 100) + "count()"

	for _, src := range []string{
		"[sec, " + sum + "]",
		"[sec, [for x in range(100) : [for y in range(100) : " + sum + "]]]",
		strings.Repeat("upper(", 100) + "sec" + strings.Repeat(")", 100),
	} {
		e := parse(t, src)
		_ = CheckSecrets(e, ctx)
	}
	if calls > 0 {
		t.Errorf("parts without secrets: got %d calls, want 0", calls)
	}
}
