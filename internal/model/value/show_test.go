package value

import (
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// FuzzQuote checks that a quoted text evaluates to the text.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "${x}", "%{x}", "$${", "$", "%", "\"\\\n\r\t", "\x00\x1f\u0085\u2028", "😀\U000e0001", "é", "\xff", "a$"} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, s string) {
		expr, diags := hclsyntax.ParseExpression([]byte(Quote(s)), "", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%q: got %s and %v, want a template without errors", s, Quote(s), diags)
		}

		got, diags := expr.Value(nil)
		if want := cty.StringVal(s); diags.HasErrors() || utf8.ValidString(s) && !got.RawEquals(want) {
			t.Fatalf("%q: got %#v, %v, want %#v", s, got, diags, want)
		}
	})
}
