package eval_test

import (
	"context"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// TestExpressionsAreBounded evaluates expressions that take hours by each way into the package: none of the callers
// asks for a limit.
func TestExpressionsAreBounded(t *testing.T) {
	const loop = `[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : [for d in range(1000) : d]]]]`
	for _, text := range []string{
		loop,
		`try(` + loop + `, 1)`,
		`"%{ for a in range(1000) }%{ for b in range(1000) }%{ for c in range(1000) }x%{ endfor }%{ endfor }%{ endfor }"`,
		`[for a in range(1000) : replace(format("%1000s", ""), " ", format("%1000s", a))]`,
	} {
		x, diags := hclsyntax.ParseExpression([]byte(text), "x.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		e := eval.New(context.Background(), &lang.Site{Sources: map[string][]byte{}}, nil)
		ways := map[string]func() (cty.Value, hcl.Diagnostics){
			"Value":   func() (cty.Value, hcl.Diagnostics) { return e.Value(x, cty.NilVal) },
			"Scope":   func() (cty.Value, hcl.Diagnostics) { return e.Scope("").Value(schema.Spec{}, x) },
			"Outside": func() (cty.Value, hcl.Diagnostics) { return e.Outside("a test", cty.DynamicVal, nil, nil).Value(x) },
			"a trace, of a run that has limits": func() (cty.Value, hcl.Diagnostics) {
				return e.Fork().WithOuterLimits().WithExpression("x.hcl", []byte(text)).Value(x, cty.NilVal)
			},
		}
		for way, value := range ways {
			if text != loop && way != "Outside" {
				continue
			}
			if _, diags := value(); origin.Code(diags) != fault.Limit {
				t.Errorf("%s of %s: got %v, want an error with the code %s", way, text, diags, fault.Limit)
			}
		}
	}
}
