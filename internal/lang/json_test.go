package lang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// An origin in a JSON string is where an editor shows it, whatever escapes stand before it.
func TestPlacesInJSONStrings(t *testing.T) {
	for name, before := range map[string]string{
		"plain":      "",
		"text":       "é→ ",
		"escapes":    `\"\\\/\n\t `,
		"code point": `\u00e9\u2192 `,
		"pair":       `\ud83d\ude00 `,
		"end":        `x`,
	} {
		t.Run(name, func(t *testing.T) {
			line := `  "a": "` + before + `${var.one}\"${[for x in var.two[0] : x.k][0]}${var.three[*].k}"`
			s, diags := Parse(
				[]world.SiteFile{{Name: "a.hcl.json", Text: "{\"locals\": {\n" + line + "\n}}"}},
				options(),
			)
			if len(diags) > 0 {
				t.Fatalf("got %s, want no diagnostics", show(diags))
			}
			e := s.Locals["a"].Expr
			var got []string
			for _, tr := range e.Variables() {
				r := tr.SourceRange()
				got = append(got, string(r.SliceBytes(s.Sources["a.hcl.json"])))
				if want := len([]rune(line[:strings.Index(line, got[len(got)-1])])) + 1; r.Start.Line != 2 ||
					r.Start.Column != want {
					t.Errorf("%s: got place %d:%d, want 2:%d", got[len(got)-1], r.Start.Line, r.Start.Column, want)
				}
			}
			if d := cmp.Diff([]string{"var.one", "var.two[0]", "var.three"}, got); d != "" {
				t.Errorf("texts (-want +got):\n%s", d)
			}
			parts := value.Unwrap(e).(*hclsyntax.TemplateExpr).Parts
			if src := string(parts[len(parts)-1].Range().SliceBytes(s.Sources["a.hcl.json"])); src != "var.three[*].k" {
				t.Errorf("place of the splat: got %q, want var.three[*].k", src)
			}
		})
	}
}

// What stands behind an escape in an error's range too.
func TestPlacesOfErrorsInJSONStrings(t *testing.T) {
	_, diags := Parse(
		[]world.SiteFile{{Name: "a.hcl.json", Text: `{"locals": {"a": "\u00e9\"${file(local.x)}"}}`}},
		options(),
	)
	if len(diags) != 1 || place(*diags[0].Subject) != "a.hcl.json:1:34" {
		t.Errorf("got %s, want one error at a.hcl.json:1:34", show(diags))
	}
}

// A key is a template, whatever it consists of: of a reference alone HCL would take the name, or find it ambiguous.
func TestKeysInJSON(t *testing.T) {
	s, diags := Parse(
		[]world.SiteFile{
			{
				Name: "a.hcl.json",
				Text: `{"locals": {"a": {"plain": 1, "${each.key}": 2, "${each}": 3, "p-${each.key}": 4}}}`,
			},
		},
		options(),
	)
	if len(diags) > 0 {
		t.Fatalf("got %s, want no diagnostics", show(diags))
	}
	in := func(each cty.Value) *hcl.EvalContext {
		return &hcl.EvalContext{Variables: map[string]cty.Value{"each": each}}
	}
	var got []string
	for n, item := range value.Unwrap(s.Locals["a"].Expr).(*hclsyntax.ObjectConsExpr).Items {
		each := cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal("k")})
		if n == 2 {
			each = cty.StringVal("whole")
		}
		v, diags := item.KeyExpr.Value(in(each))
		if diags.HasErrors() {
			t.Fatalf("key: got %v, want a value", diags)
		}
		got = append(got, v.AsString())
	}
	if d := cmp.Diff([]string{"plain", "k", "whole", "p-k"}, got); d != "" {
		t.Errorf("texts (-want +got):\n%s", d)
	}
}
