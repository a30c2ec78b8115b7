package commit

import (
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
)

// TestDecideVerify covers each combination of a shut gate, a failed run before, and the caller.
func TestDecideVerify(t *testing.T) {
	var none fault.Reason
	reason := func(code fault.Code, summary string) fault.Reason { return fault.Reason{Code: code, Summary: summary} }
	good := Result{Summary: "healthy"}
	bad := Result{Code: fault.RolledBack, Summary: "unhealthy"}
	shut := Result{Summary: "shut", Outcome: activation.Outcome{HeldBack: "no run has finished"}}
	left := Result{Code: fault.RolledBack, Summary: "shut", Outcome: activation.Outcome{HeldBack: "its way back failed"}}
	stuck := Result{Code: fault.CannotWrite, Summary: "full", Outcome: activation.Outcome{HeldBack: "full"}}
	wrongSite := reason(fault.Conflict, "the site is wrong")
	stopped := reason(fault.Interrupted, "stopped")

	for _, c := range []struct {
		name   string
		res    Result
		last   fault.Reason
		byUnit bool
		want   fault.Reason
		code   fault.Code
	}{
		{"good", good, none, false, reason("", "healthy"), ""},
		{"good, the site is still wrong", good, wrongSite, false, reason(fault.Conflict, "the site is wrong; "+
			"healthy"), ""},
		{"good, an interruption is over", good, stopped, false, reason("", "healthy"), ""},
		{"bad", bad, none, false, reason(fault.RolledBack, "unhealthy"), fault.RolledBack},
		{"bad, the site is wrong too", bad, wrongSite, true, reason(fault.RolledBack, "unhealthy"), fault.RolledBack},
		{"rolled back, and shut", left, none, false, reason(fault.RolledBack, "shut"), fault.RolledBack},
		{"shut by hand", shut, none, false, reason(fault.KubeletUnhealthy, "shut"), fault.KubeletUnhealthy},
		{"shut, by the unit", shut, none, true, reason(fault.KubeletUnhealthy, "shut"), ""},
		{"shut after a failed run", shut, wrongSite, false, wrongSite, fault.KubeletUnhealthy},
		{"shut after a failed run, by the unit", shut, wrongSite, true, wrongSite, ""},
		{"shut with a fault of its own", stuck, none, true, reason(fault.KubeletUnhealthy, "full"), fault.CannotWrite},
	} {
		got := c.res.DecideVerify(c.last, c.byUnit)
		if got.ForStatus() != c.want || got.Code != c.code {
			t.Errorf("%s: got in the status %+v and code %q; want %+v and %q", c.name, got.ForStatus(), got.Code, c.want, c.code)
		}
	}
}
