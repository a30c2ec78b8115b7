package boot

import (
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// TestPlanCode has a code for every plan that is not complete.
func TestPlanCode(t *testing.T) {
	denied := hcl.Diagnostics{origin.MayNotRead(hcl.Range{}, "a", "no")}
	unread := listUnread(denied)
	if len(unread) != 1 || !unread[0].IsDenied {
		t.Errorf("unread: got %v, want one that is denied", unread)
	}
	for name, c := range map[string]struct {
		plan Plan
		want fault.Code
	}{
		"complete":   {Plan{Complete: true}, ""},
		"denied":     {Plan{Diagnostics: denied, Unread: unread}, fault.Unread},
		"an error":   {Plan{Diagnostics: hcl.Diagnostics{denied[0], origin.Error(fault.Conflict, hcl.Range{}, "", "")}, Unread: unread}, fault.Conflict},
		"no message": {Plan{}, fault.Internal},
	} {
		if got := c.plan.Code(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
