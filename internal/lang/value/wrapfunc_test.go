package value

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// TestFunctionFaults: a function that panics, or breaks its own type, is an error that shows no stack.
func TestFunctionFaults(t *testing.T) {
	spec := func(typ function.TypeFunc, impl function.ImplFunc) function.Function {
		return careful("f", function.New(&function.Spec{Params: []function.Parameter{text("s")}, Type: typ, Impl: impl}), carriesNothing)
	}
	str := function.StaticReturnType(cty.String)
	for name, f := range map[string]function.Function{
		"in Type":    spec(func([]cty.Value) (cty.Type, error) { panic("boom") }, nil),
		"in Impl":    spec(str, func([]cty.Value, cty.Type) (cty.Value, error) { panic("boom") }),
		"wrong type": spec(str, func([]cty.Value, cty.Type) (cty.Value, error) { return cty.True, nil }),
	} {
		_, diags := parse(t, `f("a")`).Value(&hcl.EvalContext{Functions: map[string]function.Function{"f": f}})
		if !diags.HasErrors() || !strings.Contains(diags[0].Detail, "please report this") || strings.Contains(diags[0].Detail, "goroutine") {
			t.Errorf("%s: %v", name, diags)
		}
	}
}
