package explain_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
)

// TestSecretAtTheCut holds that a token is hidden, its public first part aside, before a text is cut, wherever the
// cut goes through it: its beginning alone does not look like a secret.
func TestSecretAtTheCut(t *testing.T) {
	const secret = "abcdef.0123456789abcdef"
	for _, n := range []int{5, 20, 30, 40, 45, 50, 54, 57, 120, 135, 145, 152} {
		long := strings.Repeat("x ", n/2) + secret + strings.Repeat(" y", 60)
		p := sitePlan(
			t,
			fmt.Sprintf(
				"locals {\n  long = %q\n}\nstage \"label\" \"x\" {\n  labels = { l = substr(local.long, 0, 1) }\n}\n",
				long,
			),
		)
		x, known := explain.Explain(p, explain.Item{Kind: explain.Label, Name: "l"})
		all := text(t, x)
		for _, o := range x.Origins {
			all += o.Text
		}
		all = regexp.MustCompile(`TestSecretAtTheCut\d+`).ReplaceAllString(all, "") // the folder's name may have any digits
		if !known || strings.Contains(all, "0123") {
			t.Errorf("%d characters before it: got known %t and\n%s\nwant no part of the secret", n, known, all)
		}
	}
}
