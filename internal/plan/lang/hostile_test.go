package lang

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/growth"
)

// hostileNative are texts that overflow the stack of HCL's parser or evaluator, or make it hang, if they get there.
// The forms and sizes are those that were measured; n is how often the dangerous part stands.
func hostileNative(n int) map[string]string {
	r := strings.Repeat
	return map[string]string{
		"parentheses":  "locals {\n a = " + r("(", n) + "1" + r(")", n) + "\n}\n",
		"open only":    "locals {\n a = " + r("(", n),
		"brackets":     "locals {\n a = " + r("[", n) + r("]", n) + "\n}\n",
		"objects":      "locals {\n a = " + r("{a=", n) + "1" + r("}", n) + "\n}\n",
		"templates":    "locals {\n a = " + r(`"${`, n) + "1" + r(`}"`, n) + "\n}\n",
		"calls":        "locals {\n a = " + r("f(", n) + "1" + r(")", n) + "\n}\n",
		"not":          "locals {\n a = " + r("!", n) + "true\n}\n",
		"minus":        "locals {\n a = " + r("-", n) + "1\n}\n",
		"sum":          "locals {\n a = 1" + r("+1", n) + "\n}\n",
		"conditionals": "locals {\n a = " + r("true?1:", n) + "1\n}\n",
		"splats":       "locals {\n a = x" + r("[*]", n) + "\n}\n",
		"dot splats":   "locals {\n a = x" + r(".*.a", n) + "\n}\n",
		"indexes":      "locals {\n a = x" + r("[x", n) + r("]", n) + "\n}\n",
		"blocks":       r("a {\n", n) + r("}\n", n),
		"if templates": "locals {\n a = \"" + r("%{if true}", n) + r("%{endif}", n) + "\"\n}\n",
		"heredocs":     "locals {\n a = " + r("<<A\n${", n) + "1" + r("}\nA\n", n) + "}\n",
	}
}

func TestHostileTextIsRefusedBeforeItIsParsed(t *testing.T) {
	for name, text := range hostileNative(68_000) {
		t.Run(name, func(t *testing.T) {
			refused(t, "a.hcl", text)
		})
	}
	refused(t, "a.prelet.vars", "a = "+strings.Repeat("[", 68_000))
	refused(t, "a.hcl", "locals {\n a = "+strings.Repeat("!", MaxBytes-30)+"true\n}\n")
}

func refused(t *testing.T, file, text string) {
	t.Helper()
	_, diags := Parse([]tape.SiteFile{{Name: file, Text: text}}, options())
	if len(diags) != 1 || origin.CodeOf(diags[0]) != fault.Limit {
		t.Errorf("%s, %d bytes: got %d diagnostics, the first %.300s; want one with the code limit",
			file, len(text), len(diags), show(diags))
	}
}

// The most that the limits let through must neither overflow a stack nor take the time of its square, in the parser and in
// all passes over the tree behind it.
func TestHostileTextInsideOfTheLimitsEnds(t *testing.T) {
	for name := range hostileNative(1) {
		t.Run(name, func(t *testing.T) {
			count := func(n int) int {
				tokens, _ := hclsyntax.LexConfig([]byte(hostileNative(n)[name]), "", hcl.InitialPos)
				return len(tokens)
			}
			each := (count(60) - count(10)) / 50
			n := (maxTokens - count(10)) / each
			if n := count(n); n > maxTokens || n < maxTokens-100 {
				t.Fatalf("got %d tokens, want a number near the limit", n)
			}
			growth.Check(t, n/4, func(n int) func() {
				text := hostileNative(n)[name]
				return func() {
					_, _ = Parse([]tape.SiteFile{{Name: "a.hcl", Text: text}}, options())
					_ = Format([]byte(text))
				}
			})
		})
	}
}
