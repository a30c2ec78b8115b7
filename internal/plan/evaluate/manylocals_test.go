package evaluate

import (
	"fmt"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/testing/growth"
)

// TestManyLocals checks sites of up to 3,000 locals, of which each refers to the next. The time must not grow with the
// square of that number, and the message on a cycle does not have all names.
func TestManyLocals(t *testing.T) {
	for last, want := range map[string]string{
		`"x"`: "",
		"local.a0": "local.a0 → local.a1 → local.a2 → local.a3 → local.a4 → (2990 more) → local.a2995 → local.a2996 → " +
			"local.a2997 → local.a2998 → local.a2999 → local.a0. Break it: one of them must not use the next.",
	} {
		var got hcl.Diagnostics
		growth.Check(t, 750, func(size int) func() {
			s := mustParse(t, fmt.Sprintf("locals {\n%s  a%d = %s\n}\n"+
				"stage \"label\" \"x\" { labels = { \"example.com/a\" = local.a0 } }\n"+
				"stage \"write\" \"kubelet\" {\n"+
				"  kubelet_config { when = false }\n  bootstrap_kubeconfig { when = false }\n}\n",
				chainOfLocals(size-1), size-1, last))
			return func() { got = Check(s, nil, CheckOptions{}) }
		})

		detail := ""
		for _, d := range got {
			detail = d.Detail
		}
		if detail != want {
			t.Errorf("the last is %s: got %v, want %q", last, got, want)
		}
	}
}

// chainOfLocals returns a number of locals, each of which refers to the next.
func chainOfLocals(count int) (text string) {
	for n := range count {
		text += fmt.Sprintf("  a%d = local.a%d\n", n, n+1)
	}

	return text
}
