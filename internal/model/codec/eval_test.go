package codec

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
}

func parse(t testing.TB, src string) hclsyntax.Expression {
	t.Helper()
	e, diags := hclsyntax.ParseExpression([]byte(src), "site.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s: got %s, want no error", src, diags)
	}
	return e
}

// must is the value of a literal of the language.
func must(t testing.TB, src string) cty.Value {
	t.Helper()
	v, diags := parse(t, src).Value(nil)
	if diags.HasErrors() {
		t.Fatalf("%s: got %s, want no error", src, diags)
	}
	return v
}

// typeOf is a type as a variable of a site has it.
func typeOf(t testing.TB, src string) cty.Type {
	t.Helper()
	typ, diags := typeexpr.TypeConstraint(parse(t, src))
	if diags.HasErrors() {
		t.Fatalf("%s: got %s, want no error", src, diags)
	}
	return typ
}
