package activation

import (
	"errors"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestServing checks that a missing serving certificate never changes a verdict: it is drift, and unknown if the cluster
// does not answer. A plan that does not ask for the check, such as one of 0.1.0, has none.
func TestServing(t *testing.T) {
	const pending = "request csr-1 has waited for approval"
	var scenarios []scenario
	for _, c := range []struct {
		name, dir, state, says string
		err                    error
	}{
		{name: "not asked for", err: errors.New(pending)},
		{name: "signed", dir: "/pki", state: "ok"},
		{name: "pending", dir: "/pki", err: errors.New(pending), state: Drift, says: pending},
		{name: "the server is away", dir: "/pki", err: unknownError{errors.New("away")}, state: "unknown", says: "away"},
	} {
		scenarios = append(scenarios, scenario{c.name, func(t *testing.T, n *node) {
			n.serving = c.err
			n.shape = func(p *Plan) { p.Serving = c.dir }
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})
			if got := checkOf(verify, ServingCheck); got.State != c.state || got.Message != c.says {
				t.Errorf("got check %+v; want state %q and %q", got, c.state, c.says)
			}

			n.serving = nil
			_, checks, _ := n.examine(1)
			again := checkOf(Outcome{Checks: checks}, ServingCheck)
			if want := map[bool]string{true: "ok"}[c.dir != ""]; again.State != want {
				t.Errorf("after the approval: got check %+v; want state %q", again, want)
			}
		}})
	}
	scenarios = append(scenarios, scenario{"pending, and the kubelet is unhealthy", func(t *testing.T, n *node) {
		n.bootWith("one")
		n.serving = errors.New(pending)
		n.shape = func(p *Plan) { p.Serving = "/pki" }
		out, err := n.runSite(t.Context(), "two dies=2s")
		n.mustSucceed(err, "run")
		checkOutcome(t, "run", out, Outcome{
			Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack,
		})
	}})
	play(t, scenarios)
}
