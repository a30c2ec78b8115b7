package printer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/compare"
)

// TestComparisonCutsRedactedText: a secret across the place where a value is cut is not shown up to there.
func TestComparisonCutsRedactedText(t *testing.T) {
	const secret = "hunter2-hunter2"
	r := htmlRedactor()
	r.Add([]byte(secret))
	before := strings.Repeat("x", maxDetail-len("hunt")-1) + secret
	d := compare.Difference{Inputs: []compare.InputChange{{
		Name:    "variable zone",
		Details: []compare.Detail{{Before: compare.Value(before), After: "a"}},
	}}}

	var b bytes.Buffer
	if err := ComparisonText(&b, d, htmlStyle(r)); err != nil {
		t.Fatalf("comparison: got %v, want no error", err)
	}
	if got := b.String(); strings.Contains(got, "hunt") || !strings.Contains(got, "… → a") {
		t.Errorf("comparison of a long value: got\n%s\nwant it cut, and without a part of the secret", got)
	}
}
