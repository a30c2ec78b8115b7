package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/table"
)

// planNeeding returns a complete plan with a need.
func planNeeding(need evaluate.Need) *evaluate.Plan {
	p := &evaluate.Plan{Complete: true}
	switch need {
	case evaluate.NeedsDrain:
		p.Restart.Needed, p.Drains = true, []string{"maxPods becomes 50, was 110"}
	case evaluate.NeedsKubelet:
		p.Restart.Needed = true
	}

	return p
}

// TestWhyWaits: the first reason counts, and whether the Node is drained is asked only for a plan that needs it.
func TestWhyWaits(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name                             string
		Needs                            evaluate.Need
		Disabled, Incomplete             bool
		Held                             string
		Verdict, Busy, State, NotDrained bool
		Want                             string
		Asks                             bool
	}](t, `
- {name: nothing in the way, needs: nothing}
- {name: a restart of the kubelet, needs: kubelet, notDrained: true}
- {name: a drained node, needs: drain, asks: true}
- {name: a node with pods, needs: drain, notDrained: true, want: drain, asks: true}
- {name: a state, needs: drain, state: true, want: reboot}
- {name: another run, needs: nothing, busy: true, want: run}
- {name: a verdict, needs: nothing, verdict: true, busy: true, want: verdict}
- {name: a held plan, needs: nothing, held: it failed before, verdict: true, want: held}
- {name: no plan, incomplete: true, held: it failed before, want: no-plan}
- {name: not enabled, needs: kubelet, incomplete: true, disabled: true, want: disabled}
`) {
		p := planNeeding(c.Needs)
		p.Complete = !c.Incomplete
		if c.State {
			p.Changes = []evaluate.FileChange{{File: desired.File{Purpose: "state"}, Action: "delete"}}
		}
		o := occasion{
			isEnabled: !c.Disabled, owesVerdict: c.Verdict, isBusy: c.Busy, plan: p, held: c.Held,
		}
		asked, got := false, ""
		wait := o.whyWaits(func() string {
			if asked = true; c.NotDrained {
				return "it has pods"
			}
			return ""
		})
		if wait != nil {
			got = wait.Reason
		}
		if got != c.Want || asked != c.Asks || wait != nil && wait.Why == "" {
			t.Errorf("%s: got %+v, asked for the Node: %v; want %q, %v", c.Name, wait, asked, c.Want, c.Asks)
		}
	}
}

// fleetNode is a node whose check runs at a time of its own, as RandomizedDelaySec= of the timer has it.
type fleetNode struct {
	ring      string
	isDrained bool
	phase     time.Duration
	digest    string // pulled at the last check
	used      string // of the last run
	inPlace   string
	held      map[string]string
	tried     map[string]int
}

// check is what the check of a node does: it pulls the digest of its ring, decides, and runs.
func (n *fleetNode) check(tags map[string]string, needs map[string]evaluate.Need, bad string) (applied bool) {
	n.digest = tags[n.ring]
	if n.digest == n.used {
		return false
	}
	o := occasion{isEnabled: true, plan: planNeeding(needs[n.digest]), held: n.held[n.digest]}
	wait := o.whyWaits(func() string {
		if n.isDrained {
			return ""
		}
		return "it is not cordoned"
	})
	if wait != nil {
		return false
	}

	n.used = n.digest
	n.tried[n.digest]++
	if n.digest == bad {
		n.held[n.digest] = "it was rolled back"
		return true
	}
	n.inPlace = n.digest

	return true
}

// TestThousandNodes simulates a fleet of three rings with one digest each: their checks are spread, a push reaches a
// ring only when its tag moves, a digest that needs a drain waits for it, and a bad one stops in its ring, tried once by
// each node.
func TestThousandNodes(t *testing.T) {
	const every = 10 * time.Minute
	const spread = 10 * time.Minute
	rng := rand.New(rand.NewPCG(10, 7))
	rings := []string{"one", "two", "rest"}
	needs := map[string]evaluate.Need{"v2": evaluate.NeedsKubelet, "v3": evaluate.NeedsDrain, "bad": evaluate.NeedsKubelet}
	tags := map[string]string{"one": "v1", "two": "v1", "rest": "v1"}
	var nodes []*fleetNode
	for i := range 1000 {
		ring := rings[2]
		if i < 110 {
			ring = rings[i/100] // 100 in ring one, 10 in ring two
		}
		nodes = append(nodes, &fleetNode{
			ring: ring, phase: time.Duration(rng.Int64N(int64(spread))), used: "v1", inPlace: "v1",
			held: map[string]string{}, tried: map[string]int{},
		})
	}

	now := time.Duration(0)
	pass := func() (perMinute map[int]int) {
		perMinute = map[int]int{}
		for _, n := range nodes {
			if n.check(tags, needs, "bad") {
				perMinute[int((now+n.phase).Minutes())]++
			}
		}
		now += every
		return perMinute
	}
	want := func(step string, counts map[string]int) {
		t.Helper()
		got := map[string]int{}
		for _, n := range nodes {
			got[n.ring+" "+n.inPlace]++
		}
		if fmt.Sprint(got) != fmt.Sprint(counts) {
			t.Errorf("%s: got %v, want %v", step, got, counts)
		}
	}

	for i, ring := range rings {
		tags[ring] = "v2"
		perMinute := pass()
		most := 0
		for _, n := range perMinute {
			most = max(most, n)
		}
		if ring == "rest" && (len(perMinute) != 10 || most > 150) {
			t.Errorf("%s: got %v nodes by minute, want 890 spread over 10 minutes, 150 at most in one", ring, perMinute)
		}
		switch i {
		case 0:
			want("ring one", map[string]int{"one v2": 100, "two v1": 10, "rest v1": 890})
		case 1:
			want("ring two", map[string]int{"one v2": 100, "two v2": 10, "rest v1": 890})
		}
	}
	want("all rings", map[string]int{"one v2": 100, "two v2": 10, "rest v2": 890})

	tags["one"] = "bad"
	for range 5 {
		pass()
	}
	want("a bad digest", map[string]int{"one v2": 100, "two v2": 10, "rest v2": 890})
	for _, n := range nodes {
		if want := map[string]int{"one": 1}[n.ring]; n.tried["bad"] != want {
			t.Fatalf("a node of ring %s has tried the bad digest %d times, want %d", n.ring, n.tried["bad"], want)
		}
	}

	tags["one"] = "v3"
	pass()
	want("a digest that needs a drain", map[string]int{"one v2": 100, "two v2": 10, "rest v2": 890})
	for _, n := range nodes[:40] {
		n.isDrained = true
	}
	pass()
	want("40 drained nodes", map[string]int{"one v2": 60, "one v3": 40, "two v2": 10, "rest v2": 890})
	if i := slices.IndexFunc(nodes, func(n *fleetNode) bool { return n.tried["v2"] != 1 }); i >= 0 {
		t.Errorf("node %d has tried v2 %d times, want 1", i, nodes[i].tried["v2"])
	}
}

// A wait has a reason for the metric and a text for people.
func TestWaitsAreReported(t *testing.T) {
	s := report.Status{BootID: "b", Check: &report.Drift{Waits: &report.Wait{Reason: waitsDrain, Why: "it has pods"}}}
	text, err := s.Metrics()
	if want := `prelet_site_waits{reason="drain"} 1`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("got %v\n%s\nwant %s", err, text, want)
	}
}
