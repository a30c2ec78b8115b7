package evaluate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestManyLocals checks sites of 3,000 locals, of which each refers to the next. The time must not grow with the third
// power of that number, and the message on a cycle does not have all names.
func TestManyLocals(t *testing.T) {
	const count = 3_000
	var locals strings.Builder
	for i := range count - 1 {
		fmt.Fprintf(&locals, "  a%d = local.a%d\n", i, i+1)
	}

	for last, want := range map[string]string{
		`"x"`: "",
		"local.a0": "local.a0 → local.a1 → local.a2 → local.a3 → local.a4 → (2990 more) → local.a2995 → local.a2996 → " +
			"local.a2997 → local.a2998 → local.a2999 → local.a0. Break it: one of them must not use the next.",
	} {
		s := mustParse(t, fmt.Sprintf("locals {\n%s  a%d = %s\n}\n"+
			"stage \"label\" \"x\" { labels = { \"example.com/a\" = local.a0 } }\n"+
			"stage \"write\" \"kubelet\" {\n"+
			"  kubelet_config { when = false }\n  bootstrap_kubeconfig { when = false }\n}\n",
			locals.String(), count-1, last))

		started := cpuTime(t)
		got := Check(s, nil, CheckOptions{})
		if took := cpuTime(t) - started; took > 8*time.Second {
			t.Errorf("the last is %s: got %s of CPU time, want at most 8s", last, took)
		}

		detail := ""
		for _, d := range got {
			detail = d.Detail
		}
		if detail != want {
			t.Errorf("the last is %s: got %v, want %q", last, got, want)
		}
	}
}
