package functions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestNullInLogic gives every operator of logic, and what takes a condition, each of true, false and null. Null
// counts as false for &&, as in HCL; elsewhere it is an error unless the other operand decides.
func TestNullInLogic(t *testing.T) {
	cases := table.YAML[map[string]string](t, `
null && null: 'false'
true && null: 'false'
null && true: 'false'
false && null: 'false'
null && false: 'false'
null || null: error
false || null: error
null || false: error
true || null: 'true'
null || true: 'true'
'!null': error
'!(null || false)': error
'null ? true : false': error
'length([for x in [1] : x if null]) == 0': error
`)
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
