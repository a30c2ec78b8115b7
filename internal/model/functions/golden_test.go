package functions

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/osfile"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestMarksGolden keeps what becomes of marks in each of 125 expressions: libraries change it between versions, and
// a mark that is lost is a secret that is printed. Each line of testdata/marks.golden is an expression and what
// becomes of it when fx, fb, fn and the leaves of the collections flow from a credential.
func TestMarksGolden(t *testing.T) {
	src := osfile.Read(t, "testdata/expressions.txt")
	var b strings.Builder
	n := 0
	for _, e := range strings.Split(strings.TrimSpace(string(src)), "\n") {
		n++
		fmt.Fprintf(&b, "%s\n", e)
		fmt.Fprintf(&b, "\tsecret  %s\n", outcome(t, e, markedVars(secret.Mark{Name: "c"})))
	}
	if n != 125 {
		t.Errorf("%d expressions, want 125", n)
	}
	osfile.Golden(t, "testdata/marks.golden", b.String(), *update)
}

func markedVars(m secret.Mark) map[string]cty.Value {
	str := secret.Credential(m.Name)
	gpu := func(name string, mem int64) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{
			"name": cty.StringVal(name).
				Mark(m),
			"mem":  cty.NumberIntVal(mem).Mark(m),
			"null": cty.NullVal(cty.String).Mark(m),
		})
	}
	plain := cty.StringVal("p")
	return map[string]cty.Value{
		"plain": plain,
		"fx":    str,
		"sec":   secret.Credential("other"),
		"fb":    cty.True.Mark(m),
		"fn":    cty.NumberIntVal(1).Mark(m),
		"gpus":  cty.ListVal([]cty.Value{gpu("a", 80), gpu("b", 40)}),
		"mlist": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"name": plain})}).Mark(m),
		"map":   cty.MapVal(map[string]cty.Value{"a": plain, "b": str}),
		"mmap":  cty.MapVal(map[string]cty.Value{"a": plain, "b": plain}).Mark(m),
		"obj":   cty.ObjectVal(map[string]cty.Value{"a": str, "b": plain}),
		"json":  cty.StringVal(`{"a":{"b":1}}`).Mark(m),
		"unk":   cty.UnknownVal(cty.String).Mark(m),
		"both":  cty.StringVal("x").Mark(m).Mark(secret.Mark{Name: "other"}),
		"dyn":   cty.DynamicVal.Mark(m),
	}
}

// outcome is a value and its marks, in a form that does not depend on the order of maps.
func outcome(t *testing.T, src string, vars map[string]cty.Value) string {
	v, diags := evaluate(t, src, vars)
	if isSecretRefused(diags) {
		return "refused"
	}
	if diags.HasErrors() {
		return "error: " + firstError(diags)
	}
	plain, secrets := secret.Plain(v)
	where := "inside"
	if v.IsMarked() {
		where = "whole"
	}
	if len(secrets) == 0 {
		where = "no marks"
	}
	text := strings.NewReplacer("cty.", "", "\ue000", "<", "\ue001", ">", "\\ue000", "<", "\\ue001", ">").
		Replace(fmt.Sprintf("%#v", plain))
	return fmt.Sprintf("%s %s %s", where, strings.Join(secrets, " "), text)
}

func firstError(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return d.Summary + ": " + strings.SplitN(d.Detail, "\n", 2)[0]
		}
	}
	return ""
}
