package commit

import (
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
)

// TestDecideVerify covers each combination of a shut gate, a failed run before, and the caller.
func TestDecideVerify(t *testing.T) {
	good := Ended{Summary: "healthy"}
	bad := Ended{Code: fault.RolledBack, Summary: "unhealthy"}
	shut := Ended{Summary: "shut", Outcome: activation.Outcome{HeldBack: "no run has finished"}}
	left := Ended{Code: fault.RolledBack, Summary: "shut", Outcome: activation.Outcome{HeldBack: "its way back failed"}}
	stuck := Ended{Code: fault.CannotWrite, Summary: "full", Outcome: activation.Outcome{HeldBack: "full"}}
	wrongSite := Ending{fault.Conflict, "the site is wrong"}
	stopped := Ending{fault.Interrupted, "stopped"}

	for _, c := range []struct {
		name   string
		res    Ended
		last   Ending
		byUnit bool
		want   Ending
		code   fault.Code
	}{
		{"good", good, Ending{}, false, Ending{"", "healthy"}, ""},
		{"good, the site is still wrong", good, wrongSite, false, Ending{fault.Conflict, "the site is wrong; " +
			"healthy"}, ""},
		{"good, an interruption is over", good, stopped, false, Ending{"", "healthy"}, ""},
		{"bad", bad, Ending{}, false, Ending{fault.RolledBack, "unhealthy"}, fault.RolledBack},
		{"bad, the site is wrong too", bad, wrongSite, true, Ending{fault.RolledBack, "unhealthy"}, fault.RolledBack},
		{"rolled back, and shut", left, Ending{}, false, Ending{fault.RolledBack, "shut"}, fault.RolledBack},
		{"shut by hand", shut, Ending{}, false, Ending{fault.KubeletUnhealthy, "shut"}, fault.KubeletUnhealthy},
		{"shut, by the unit", shut, Ending{}, true, Ending{fault.KubeletUnhealthy, "shut"}, ""},
		{"shut after a failed run", shut, wrongSite, false, wrongSite, fault.KubeletUnhealthy},
		{"shut after a failed run, by the unit", shut, wrongSite, true, wrongSite, ""},
		{"shut with a fault of its own", stuck, Ending{}, true, Ending{fault.KubeletUnhealthy, "full"}, fault.CannotWrite},
	} {
		got, code := DecideVerify(c.res, c.last, c.byUnit)
		if got != c.want || code != c.code {
			t.Errorf("%s: got report %+v and code %q; want %+v and %q", c.name, got, code, c.want, c.code)
		}
	}
}
