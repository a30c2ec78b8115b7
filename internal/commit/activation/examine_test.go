package activation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
)

// examine runs `prelet verify` by hand on a generation that was judged.
func (n *node) examine(gen int) (all string, checks []Check, cause *Cause) {
	n.t.Helper()
	_, err := n.process(func(m *Machine) (Outcome, error) {
		if err := m.Store.Unlock(); err != nil {
			return Outcome{}, err
		}

		var err error
		if checks, cause, err = m.Examine(n.t.Context(), gen); err != nil {
			return Outcome{}, err
		}

		return Outcome{}, m.relock(n.t.Context())
	})
	n.mustSucceed(err, "examine")

	for _, c := range checks {
		all += c.Name + "=" + c.State + " "
	}

	return strings.TrimSpace(all), checks, cause
}

const (
	others = "unit=ok started=ok healthz=ok steady=ok flags=ok files=ok kubeconfig=ok node=ok"
	allOK  = others + " pods=ok"
)

// TestExamine covers the checks of a kubelet that was judged before.
func TestExamine(t *testing.T) {
	play(t, []scenario{
		{"one that has run for long is seen at once", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.advance(time.Hour)

			at := n.clk.now
			if all, _, _ := n.examine(1); all != allOK || n.clk.now != at {
				t.Errorf("%s after %s; want all checks ok, at once", all, n.clk.now-at)
			}
		}},
		{"one that has just started is watched until it has settled", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.enqueue("restart")
			n.clk.advance(time.Second)

			at := n.clk.now
			if all, _, _ := n.examine(1); all != allOK || n.clk.now-at < 8*time.Second {
				t.Errorf("%s after %s; want all checks ok, after at least 8 s", all, n.clk.now-at)
			}
		}},
		{"one that dies meanwhile is not well, and says why", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.enqueue("restart")
			n.clk.advance(time.Second)
			n.clk.schedule(3*time.Second, func() { n.systemd.fail("exit-code") })
			n.log = []string{
				`E0101 00:00:00.000000 1 run.go:72] "command failed" err="failed to run Kubelet: running with swap on is not supported"`,
			}

			all, checks, cause := n.examine(1)
			if !strings.HasPrefix(all, "unit=failed") ||
				!strings.Contains(checks[0].Message, "activating/auto-restart (last result exit-code") ||
				cause == nil || cause.ID != "swap" {
				t.Errorf("got checks %s %+v and cause %+v; want unit=failed and cause swap", all, checks, cause)
			}
		}},
		{"one that is stopped is not well", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.systemd.stopByHand()
			n.clk.advance(time.Second)

			all, checks, _ := n.examine(1)
			if all != "unit=failed" || !strings.Contains(checks[0].Message, "inactive/dead") {
				t.Errorf("got checks %s %+v; want only unit=failed, inactive/dead", all, checks)
			}
		}},
		{"a process that is older than the files of this boot", func(t *testing.T, n *node) {
			n.bootWith("one")

			n.systemd.unit.Started = time.Second
			all, checks, _ := n.examine(1)
			if all != "unit=ok started=failed" ||
				!strings.Contains(checks[1].Message, "started before the files were in place") {
				t.Errorf("got checks %s %+v; want started=failed", all, checks)
			}
		}},
		{"files of an earlier boot: any process is younger", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.reboot()
			n.bootWith("one")
			n.clk.advance(time.Minute)

			if all, _, _ := n.examine(1); all != allOK {
				t.Errorf("got checks %s; want %s", all, allOK)
			}
		}},
		{"what others changed, and what cannot be compared", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) {
				p.Labels = map[string]string{"example.com/a": "1"}
				p.Configz = &kubelet.Configz{Credential: "configz"}
			}
			n.labels, n.age = map[string]string{"example.com/a": "1"}, time.Hour
			n.bootWith("one")
			n.clk.advance(time.Minute)

			n.labels["example.com/a"] = "2"
			if all, _, _ := n.examine(1); all != others+" labels=drift configz=unknown pods=ok" {
				t.Errorf("got checks %s; want labels=drift and configz=unknown", all)
			}

			n.apiserver = false
			all, _, _ := n.examine(1)
			want := strings.Replace(others, "node=ok", "node=unknown", 1) + " configz=unknown pods=ok"
			if all != want {
				t.Errorf("got checks %s; want %s", all, want)
			}
		}},
	})
}

// TestConfigz: an unknown result does not delay the verdict, and another configuration is unhealthy.
func TestConfigz(t *testing.T) {
	play(t, []scenario{
		{"no credential: good all the same, and reported", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Configz = &kubelet.Configz{Credential: "configz"} }
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})

			c := checkOf(verify, "configz")
			if c.State != "unknown" || !strings.Contains(c.Message, "credential configz is not here") {
				t.Errorf("got check configz %+v; want unknown because of the missing credential", c)
			}
		}},
		{"as planned", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Configz = &kubelet.Configz{Credential: "configz"} }
			n.configz = func() []string { return nil }

			_, verify := n.bootWith("one")
			if c := checkOf(verify, "configz"); verify.Verdict != Good || c.State != "ok" {
				t.Errorf("got verdict %q and check configz %+v; want good and ok", verify.Verdict, c)
			}
		}},
		{"another configuration than planned: bad at once, and back", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.shape = func(p *Plan) { p.Configz = &kubelet.Configz{Credential: "configz"} }
			n.configz = func() []string { return []string{"maxPods is 64 and not 110"} }
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out,
				Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
			)

			want := "configz: the kubelet runs with another configuration than planned: maxPods is 64 and not 110"
			if !strings.Contains(out.Why, want) || n.status(2) != generation.StatusRolledBack {
				t.Errorf("got status %q and reason %q; want rolled back, %q", n.status(2), out.Why, want)
			}
		}},
	})
}

// TestLoggedConfig: without a credential, the configuration that the kubelet logs is compared. A difference is drift, and
// whatever is wrong with the log leaves the verdict as it is.
func TestLoggedConfig(t *testing.T) {
	const entry = `I1122 22:10:03.251417    4711 server.go:256] "Effective KubeletConfiguration" config=<
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	maxPods: 64
 >`
	shape := func(maxPods int) func(*Plan) {
		return func(p *Plan) { p.Configz = &kubelet.Configz{Planned: map[string]any{"maxPods": maxPods}} }
	}
	withCredential := func(p *Plan) {
		p.Configz = &kubelet.Configz{Credential: "configz", Planned: map[string]any{"maxPods": 110}}
	}

	var scenarios []scenario
	for _, c := range []struct {
		name, log     string
		shape         func(*Plan)
		state, says   string
		configzIsLost bool // the check with the credential is unknown as well
	}{
		{name: "as planned", log: entry, shape: shape(64), state: "ok"},
		{name: "another configuration", log: entry, shape: shape(110), state: Drift,
			says: "maxPods is 64 and not 110; a flag, or a drop-in that is read later"},
		{name: "an older kubelet, or a rotated journal", log: "I1122 22:10:03.2 1 x.go:1] \"x\"", shape: shape(110)},
		{name: "an empty journal", shape: shape(110)},
		{name: "an entry that is cut off", log: entry[:170], shape: shape(110), state: "unknown", says: "is cut off"},
		{name: "garbage", log: strings.Replace(entry, "maxPods: 64", "maxPods: [", 1), shape: shape(110),
			state: "unknown", says: "the configuration in the kubelet's log: "},
		{name: "the credential is not here", log: entry, shape: withCredential, state: Drift,
			says: "maxPods is 64 and not 110", configzIsLost: true},
	} {
		scenarios = append(scenarios, scenario{c.name, func(t *testing.T, n *node) {
			n.shape = c.shape
			n.startLog = c.log
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})

			if got := checkOf(verify, ConfigCheck); got.State != c.state || !strings.Contains(got.Message, c.says) {
				t.Errorf("got check %+v; want state %q and %q", got, c.state, c.says)
			}
			if got := checkOf(verify, "configz"); (got.State == "unknown") != c.configzIsLost {
				t.Errorf("got check %+v; want it unknown: %v", got, c.configzIsLost)
			}
		}})
	}
	scenarios = append(scenarios, scenario{"a journal that may not be read", func(t *testing.T, n *node) {
		n.shape = shape(110)
		n.logErr = errors.New("No journal files were opened due to insufficient permissions")
		_, verify := n.bootWith("one")
		checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})

		got := checkOf(verify, ConfigCheck)
		if got.State != "unknown" || !strings.Contains(got.Message, "insufficient permissions") {
			t.Errorf("got check %+v; want unknown because of the journal", got)
		}
	}})
	play(t, scenarios)
}
