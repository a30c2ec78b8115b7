package evaluate

import (
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

// TestPlanCode has a code for every plan that is not complete.
func TestPlanCode(t *testing.T) {
	denied := hcl.Diagnostics{origin.MayNotRead(hcl.Range{}, "a", "no")}
	for name, c := range map[string]struct {
		plan Plan
		want fault.Code
	}{
		"complete":   {Plan{Complete: true}, ""},
		"denied":     {Plan{Diagnostics: denied}, fault.Unread},
		"no message": {Plan{}, fault.Internal},
	} {
		if got := c.plan.Code(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
