package activation

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
)

// checkOf returns the check with that name.
func checkOf(out Outcome, name string) Check {
	for _, c := range out.Checks {
		if c.Name == name {
			return c
		}
	}

	return Check{}
}

// TestLabels covers which labels of a Node object are patched, reported and judged.
func TestLabels(t *testing.T) {
	joined := func(n *node) {
		n.labels, n.age = map[string]string{
			"example.com/a":    "1",
			"example.com/old":  "x",
			"kubernetes.io/os": "linux",
		}, time.Hour
		n.bootWith("one")
	}
	plans := func(n *node, reconcile bool, labels map[string]string) {
		n.shape = func(p *Plan) {
			p.Labels, p.Reconcile = labels, reconcile
			p.GoneLabels = map[string][]string{"example.com/old": {"x"}}
			p.Sources = map[string]string{
				"label/example.com/a":                    "site.hcl:4:5, label.x",
				"label/node-restriction.kubernetes.io/r": "site.hcl:6:5, label.y",
			}
		}
	}
	play(t, []scenario{
		{"patched after a good verdict: set, and removed what an earlier generation set", func(t *testing.T, n *node) {
			joined(n)
			plans(n, true, map[string]string{"example.com/a": "2", "example.com/b": "3"})
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

			want := map[string]string{"example.com/a": "2", "example.com/b": "3", "kubernetes.io/os": "linux"}
			if !maps.Equal(n.labels, want) {
				t.Errorf("got labels %v; want %v", n.labels, want)
			}

			c := checkOf(out, "labels")
			if c.State != "ok" || c.Message != "patched: example.com/a=2 example.com/b=3 example.com/old-" ||
				n.patches != 1 {
				t.Errorf("%+v after %d patches; want ok and one patch of a, b and old", c, n.patches)
			}
		}},
		{"not those of another machine, whose kubelet runs under this name", func(t *testing.T, n *node) {
			joined(n)
			plans(n, true, map[string]string{"example.com/a": "1"})
			_, err := n.runSite(t.Context(), "one")
			n.mustSucceed(err, "run")

			n.labels["example.com/a"] = "another's"
			n.reports = n.inTurn("another")
			n.patches = 0
			out, err := n.runSite(t.Context(), "one")
			n.mustSucceed(err, "run on the Node of another machine")
			if c := checkOf(out, "labels"); n.patches != 0 || c.State != "unknown" ||
				!strings.Contains(c.Message, "n1 is another machine") {
				t.Errorf("%+v, %d patches; want unknown because of another machine, and no patch", c, n.patches)
			}
		}},
		{"one is refused: the others are patched, and it is reported with its line", func(t *testing.T, n *node) {
			joined(n)
			plans(n, true, map[string]string{"example.com/a": "2", "node-restriction.kubernetes.io/r": "1"})
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

			c := checkOf(out, "labels")
			if c.State != Drift || n.labels["example.com/a"] != "2" || n.labels["example.com/old"] != "" ||
				!strings.Contains(
					c.Message,
					"is not allowed to modify labels: node-restriction.kubernetes.io/r) (site.hcl:6:5, "+
						"label.y); kubectl label node n1 --overwrite node-restriction.kubernetes.io/r=1",
				) {
				t.Errorf("%+v, labels %v; want the refused label and the command that sets it", c, n.labels)
			}
		}},
		{"what somebody changed since is not removed", func(t *testing.T, n *node) {
			joined(n)
			n.labels["example.com/old"] = "somebody's"
			plans(n, true, map[string]string{"example.com/a": "1"})
			_, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")

			if n.labels["example.com/old"] != "somebody's" || n.patches != 0 {
				t.Errorf("labels %v, %d patches; want the label of another owner and no patch", n.labels, n.patches)
			}
		}},
		{"zone and its like are the kubelet's own to bring up to date", func(t *testing.T, n *node) {
			joined(n)
			plans(n, true, map[string]string{"topology.kubernetes.io/zone": "b"})
			n.labels = map[string]string{"topology.kubernetes.io/zone": "a"}
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")

			if c := checkOf(out, "labels"); n.patches != 0 || c.State != Drift {
				t.Errorf("%+v, %d patches; want drift and no patch", c, n.patches)
			}
		}},
		{"without reconcile: drift, reported with the command, and never unhealthy", func(t *testing.T, n *node) {
			joined(n)
			plans(n, false, map[string]string{"example.com/a": "2"})
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

			want := `example.com/a is "1" and not "2" (site.hcl:4:5, label.x), example.com/old=x is there, and no longer planned; kubectl label node n1 --overwrite example.com/a=2 example.com/old-`
			if c := checkOf(out, "labels"); c.State != Drift || c.Message != want || n.patches != 0 {
				t.Errorf("%+v, %d patches\nwant %s", c, n.patches, want)
			}
		}},
		{"taints: drift, with the command for who may", func(t *testing.T, n *node) {
			joined(n)
			n.taints = []kubelet.Taint{
				{Key: "old", Effect: "NoExecute"},
				{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"},
			}
			n.shape = func(p *Plan) {
				p.Taints, p.GoneTaints = []string{"gpu=yes:NoSchedule"}, []string{"old:NoExecute", "older:NoExecute"}
				p.Sources = map[string]string{"taint/gpu": "site.hcl:9:12, taint.x"}
			}
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})

			want := `taint gpu=yes:NoSchedule is missing (site.hcl:9:12, taint.x), taint old:NoExecute is there, and no longer planned; a node cannot change its own taints: kubectl taint node n1 --overwrite gpu=yes:NoSchedule old:NoExecute-`
			if c := checkOf(out, "taints"); c.State != Drift || c.Message != want {
				t.Errorf("%+v\nwant %s", c, want)
			}
		}},
		{"a taint with another value: one command, without its removal", func(t *testing.T, n *node) {
			joined(n)
			n.taints = []kubelet.Taint{{Key: "gpu", Value: "no", Effect: "NoSchedule"}}
			n.shape = func(p *Plan) {
				p.Taints, p.GoneTaints = []string{"gpu=yes:NoSchedule"}, []string{"gpu=no:NoSchedule"}
			}
			out, err := n.runSite(t.Context(), "two")
			n.mustSucceed(err, "run")

			want := `taint gpu=yes:NoSchedule is missing: the Node has gpu=no:NoSchedule; a node cannot change its own taints: kubectl taint node n1 --overwrite gpu=yes:NoSchedule`
			if c := checkOf(out, "taints"); c.State != Drift || c.Message != want {
				t.Errorf("%+v\nwant %s", c, want)
			}
		}},
		{"a Node that this generation made without its labels is unhealthy", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Labels, p.Joins = map[string]string{"example.com/a": "1"}, true }
			n.labels, n.age = map[string]string{"kubernetes.io/os": "linux"}, 3*time.Second
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Bad, Generation: 1, Code: fault.RolledBack})

			c := checkOf(verify, "labels")
			if c.State != "failed" ||
				!strings.Contains(c.Message, "has just made node n1 with other labels: example.com/a=1 is missing") {
				t.Errorf("got check labels %+v; want failed because of a missing label", c)
			}
		}},
		{"two machines boot at once under one name: the loser names the other machine, not its labels", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Labels, p.Joins = map[string]string{"example.com/a": "1"}, true }
			n.labels, n.age = map[string]string{"example.com/a": "2"}, 3*time.Second
			n.reports = n.inTurn("", "another", "")
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Unknown, Generation: 1, Code: fault.OtherMachine})

			if c := checkOf(verify, "machine"); c.State != "unknown" || c.Message != "n1 is another machine" {
				t.Errorf("got check machine %+v; want unknown, because n1 is another machine", c)
			}
		}},
		{"the Node of a machine that was replaced is updated by this one, and stays its own", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Joins = true }
			n.reports = n.inTurn("another", "", "")
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})
		}},
		{"zone and its like are set by others on a new Node as well", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Labels, p.Joins = map[string]string{"topology.kubernetes.io/zone": "a"}, true }
			n.labels, n.age = map[string]string{"topology.kubernetes.io/zone": "cloud"}, 3*time.Second
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})
		}},
		{"an older Node that the kubelet found under its name is not", func(t *testing.T, n *node) {
			n.shape = func(p *Plan) { p.Labels, p.Joins = map[string]string{"example.com/a": "1"}, true }
			n.age = time.Hour
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})

			if c := checkOf(verify, "labels"); c.State != Drift {
				t.Errorf("%+v; want drift", c)
			}
		}},
		{
			"nothing to do: somebody's change is patched back where a start may be waited for, and at boot " +
				"nothing is asked",
			func(t *testing.T, n *node) {
				n.labels, n.age = map[string]string{"example.com/a": "1"}, time.Hour
				plans(n, true, map[string]string{"example.com/a": "1"})
				n.bootWith("one")
				n.labels["example.com/a"] = "somebody's"

				again := func() (checks []Check) {
					_, err := n.process(
						func(m *Machine) (Outcome, error) {
							out, err := m.ResumeUnchanged(t.Context(), n.plan("one"))
							checks = out.Checks

							return out, err
						},
					)
					n.mustSucceed(err, "reconcile")

					return checks
				}
				if checks := again(); n.labels["example.com/a"] != "1" || n.patches != 1 || len(checks) != 1 ||
					checks[0].Message != "patched: example.com/a=1" {
					t.Errorf("labels %v, %+v; want one patch of example.com/a", n.labels, checks)
				}

				if checks := again(); n.patches != 1 || len(checks) != 0 {
					t.Errorf("again: %+v, %d patches; want no further patch", checks, n.patches)
				}

				n.labels["example.com/a"] = "somebody's"
				n.reboot()

				if checks := again(); n.patches != 1 || len(checks) != 0 {
					t.Errorf("at boot: %+v, %d patches; want no further patch", checks, n.patches)
				}
			},
		},
		{"the cluster is away after the verdict: that is reported, and the verdict stays", func(t *testing.T, n *node) {
			joined(n)
			plans(n, true, map[string]string{"example.com/a": "2"})
			n.shape = func(shape func(*Plan)) func(*Plan) {
				return func(p *Plan) { shape(p); p.Node = "n1" }
			}(n.shape)
			m := &Machine{Probe: n, Clock: n.clk}

			n.apiserver = false
			checks := m.reconcile(t.Context(), n.plan("two"), []Check{{Name: "unit", State: "ok"}})
			if len(checks) != 2 || checks[1].State != "unknown" ||
				!strings.Contains(checks[1].Message, "not patched: the apiserver does not answer") {
				t.Errorf("%+v; want a second check that is unknown", checks)
			}
		}},
	})
}

// inTurn returns the machines that update the Node from the first look on, each for as long as a kubelet waits until it
// updates its Node again.
func (n *node) inTurn(ids ...string) func() string {
	const updateEvery = 10 * time.Second
	var began time.Duration

	return func() string {
		if began == 0 {
			began = n.clk.now
		}

		return ids[int((n.clk.now-began)/updateEvery)%len(ids)]
	}
}
