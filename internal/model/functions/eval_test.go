package functions

import (
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// evaluate parses, checks and evaluates one expression, as the site's evaluator does.
func evaluate(t testing.TB, src string, vars map[string]cty.Value) (cty.Value, hcl.Diagnostics) {
	t.Helper()
	return evaluateWith(t, src, vars, Checking{})
}

func evaluateWith(t testing.TB, src string, vars map[string]cty.Value, opts Checking) (cty.Value, hcl.Diagnostics) {
	t.Helper()
	e := parse(t, src)
	ctx := &hcl.EvalContext{Variables: vars, Functions: AllWith(opts)}
	if diags := CheckSecrets(e, ctx); diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	return e.Value(ctx)
}

func parse(t testing.TB, src string) hclsyntax.Expression {
	t.Helper()
	e, diags := hclsyntax.ParseExpression([]byte(src), "site.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s: got %s, want no error", src, diags)
	}
	return e
}

// isSecretRefused reports whether one of the diagnostics refuses a use of a secret.
func isSecretRefused(diags hcl.Diagnostics) bool {
	return slices.ContainsFunc(diags, IsSecretRefused)
}

// must is the value of an expression that has no error.
func must(t testing.TB, src string, vars map[string]cty.Value) cty.Value {
	t.Helper()
	v, diags := evaluate(t, src, vars)
	if diags.HasErrors() {
		t.Fatalf("%s: got %s, want no error", src, diags)
	}
	return v
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
}
