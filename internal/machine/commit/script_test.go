package commit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/script"
)

// TestRuns plays whole runs, with the store on a disk and fakes around it: testdata/runs.txtar.
func TestRuns(t *testing.T) {
	for _, s := range script.Load(t, "testdata/runs.txtar") {
		t.Run(s.Name, func(t *testing.T) { newRunNode(t).Play(s.Lines) })
	}
}

func TestExamples(t *testing.T) {
	script.Examples(t, "run", func(t *testing.T, lines []script.Line) { newRunNode(t).Play(lines) })
}

// runNode plays scripts on a bench.
type runNode struct {
	*bench
	*script.Player
	res    Result
	status *report.Status // nil after a run below a root
}

func newRunNode(t *testing.T) *runNode {
	n := &runNode{bench: newBench(t)}
	d := script.Disk{T: t, Path: func(name string) string { return filepath.Join(n.dir, name) }}
	n.Player = script.New(t, script.Node{
		Name:     "run",
		Commands: script.Merge(d.Commands(), n.commands()),
		Facts:    script.Merge(d.Facts(), n.facts()),
	})

	return n
}

func (n *runNode) commands() map[string]script.Command {
	return map[string]script.Command{
		"run":      func(a []string) error { n.run(a[0], append(a[1:], "")); return nil },
		"rollback": n.rollBack,
		"reboot":   n.reboot,
		"enter":    n.enter,
		"hold":     n.hold,
		"on":       n.on,
		"kubelet":  n.kubeletDoes,
		"systemd":  func(a []string) error { return script.Assign(&n.kubelet, a[2:]) },
		"cluster":  n.clusterDoes,
		"clock":    n.clock,
	}
}

// facts returns what scripts see of the last run, and of the node.
func (n *runNode) facts() map[string]script.Fact {
	text := func(get func() string) script.Fact {
		return script.Fact{Get: func([]string) (string, error) { return get(), nil }}
	}

	return map[string]script.Fact{
		"outcome":   {Get: func([]string) (string, error) { return n.outcome() }},
		"gate":      {Get: func([]string) (string, error) { return n.gate() }},
		"exit":      text(func() string { return fmt.Sprint(n.res.Code.Exit()) }),
		"why":       text(func() string { return n.res.Held }),
		"held-back": text(func() string { return n.Machine.Gate.Reason() }),
		"from":      text(func() string { return fmt.Sprint(n.res.Outcome.From) }),
		"summary":   text(func() string { return n.res.Summary }),
		"logged":    text(func() string { return n.log.String() }),
		"degraded": text(func() string {
			return n.degraded(func(r fault.Reason) string { return string(r.Code) }, " ")
		}),
		"degraded-why": text(func() string {
			return n.degraded(func(r fault.Reason) string { return r.Summary }, "\n")
		}),
		"pinned": text(func() string {
			gen, _, isPinned := n.Store.Pinned()
			if !isPinned {
				return "none"
			}

			return fmt.Sprint(gen)
		}),
		"hold-left": text(func() string {
			_, left := FindHolds(n.dir+"/state", n.boot, n.now)

			return left.String()
		}),
	}
}

// planOf returns a complete plan with this hash, or one that failed: unreachable, wrong, failed-precondition, or
// no-site.
func planOf(name string) *evaluate.Plan {
	switch code := map[string]fault.Code{"wrong": fault.WrongType, "no-site": fault.NoSite,
		"failed-precondition": fault.Precondition}[name]; {
	case name == "unreachable":
		return unreachable()
	case code != "":
		return &evaluate.Plan{Diagnostics: hcl.Diagnostics{origin.Error(code, hcl.Range{}, "Wrong", "Why: so.")}}
	}

	return complete(name)
}

// run SITE [off|stopped|with-stage|outdated-state|of-another-machine|hold NAME...|no-hold NAME...|below-root [retry]]:
// in a process of its own. A hold NAME? is unknown.
func (n *runNode) run(site string, how []string) {
	n.t.Helper()
	if how[0] == "below-root" {
		n.res, n.status = RunBelowRoot(n.options(planOf(site)), how[1] == "retry", "/image"), nil
		if n.res.Err != nil && n.res.Summary != n.res.Err.Error() {
			n.t.Errorf("%s: got the summary %q, want the error %v", n.Line, n.res.Summary, n.res.Err)
		}
		return
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	defer cancel()
	n.open(true)
	n.isRival = false
	n.plan = planOf(site)
	switch how[0] {
	case "off":
		n.Off = true
	case "stopped":
		cancel()
	case "with-stage":
		n.plan.Node.Activation = &desired.Activation{
			Unit: "site-kubelet.service", SettleMillis: 1000, TimeoutMillis: 60000,
		}
	case "outdated-state":
		n.plan.Changes = []evaluate.FileChange{{
			File:   desired.File{Path: "/etc/memory_manager_state", Kind: desired.Missing, Purpose: "state"},
			Old:    tape.TargetAns{Exists: true, Mode: 0o600},
			Action: "delete", Why: "NUMA node 0 had 2 bytes and has 1", Outdated: true,
		}}
	case "hold", "no-hold":
		n.NoHold = how[0] == "no-hold"
		if site != "wrong" { // which does not come as far as its holds
			n.plan.Node.Activation = activationWith(how[1 : len(how)-1])
		}
	case "of-another-machine":
		n.isRival = true
	case "":
	default:
		n.t.Fatalf("%s: got %v", n.Line, script.Unknown("run", how[0]))
	}
	n.res = n.play(ctx)
	n.status = n.finish(n.res)
}

// activationWith returns an activation with these holds.
func activationWith(names []string) *desired.Activation {
	a := &desired.Activation{Unit: activation.DefaultUnit, Rollback: true}
	for _, name := range names {
		a.Holds = append(a.Holds, desired.Hold{
			Name: strings.TrimSuffix(name, "?"), For: 30 * time.Minute, Message: name + " is broken",
			Unknown: strings.HasSuffix(name, "?"),
		})
	}

	return a
}

// rollBack GENERATION: by hand.
func (n *runNode) rollBack(a []string) error {
	n.open(true)
	n.RollBack(n.t.Context(), n.Number(a[0], 10))
	n.res = n.Result
	n.status = n.finish(n.res)

	return nil
}

func (n *runNode) reboot([]string) error {
	n.boot += "+"
	n.now = time.Minute
	n.stopKubelet()
	if err := os.RemoveAll(n.dir + "/run"); err != nil {
		return err
	}

	return os.Mkdir(n.dir+"/run", 0o755)
}

func (n *runNode) stopKubelet() {
	n.kubelet.Active, n.kubelet.Sub, n.kubelet.Started, n.kubelet.MainPID = "inactive", "dead", 0, 0
}

// enter report-held SITE: an earlier process of this boot has reported that the plan is held.
func (n *runNode) enter(a []string) error {
	if a[0] != "report-held" {
		return script.Unknown("way to enter", a[0])
	}
	n.Report.Held(a[1], "so")
	n.finish(Result{})

	return nil
}

// hold generation N WHO: it is pinned.
func (n *runNode) hold(a []string) error {
	if a[0] != "generation" {
		return script.Unknown("hold", a[0])
	}

	return n.Store.Pin(n.Number(a[1], 10), a[2])
}

// on watch COMMAND: whenever the kubelet's health is asked for.
func (n *runNode) on(a []string) error {
	if a[0] != "watch" {
		return script.Unknown("moment", a[0])
	}
	n.onWatch = n.Later(a[1:])

	return nil
}

// kubelet seen|unhealthy SITE...: a commit has noted that it runs or waits; it is unhealthy with the files of these
// sites.
func (n *runNode) kubeletDoes(a []string) error {
	switch a[0] {
	case "seen":
		return n.Machine.Gate.MarkSeen()
	case "unhealthy":
		n.sick = strings.Join(a[1:], " ")
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

// cluster unreachable|reachable: the API server does not answer, or does.
func (n *runNode) clusterDoes(a []string) error {
	n.away = a[0] == "unreachable"
	if !n.away && a[0] != "reachable" {
		return script.Unknown("verb", a[0])
	}

	return nil
}

// clock advance DURATION, or set +DURATION: the wall clock jumps.
func (n *runNode) clock(a []string) error {
	d := n.Duration(a[1])
	switch a[0] {
	case "set":
		n.jump += d
	case "advance":
		n.now += d
	default:
		return script.Unknown("verb", a[0])
	}

	return nil
}

// outcome returns CODE [GENERATION open|shut] [held] [error] [changed]. The generation is that of the status.
func (n *runNode) outcome() (string, error) {
	got, isHeld := "ok", n.res.Held != ""
	if n.res.Code != "" {
		got = string(n.res.Code)
	}
	if n.status != nil {
		_, isOpen, err := n.Machine.Gate.State()
		if err != nil {
			return "", err
		}
		got += fmt.Sprint(" ", n.status.Generation, map[bool]string{true: " open", false: " shut"}[isOpen])
		isHeld = n.status.Held != nil
	}
	for word, isSet := range []bool{isHeld, n.res.Err != nil, n.res.Changed} {
		if isSet {
			got += " " + []string{"held", "error", "changed"}[word]
		}
	}

	return got, nil
}

func (n *runNode) gate() (string, error) {
	gen, isOpen, err := n.Machine.Gate.State()
	if err != nil || !isOpen {
		return "shut", err
	}

	return fmt.Sprint(gen), nil
}

// degraded returns a text of each reason for which the last run is degraded, or none.
func (n *runNode) degraded(of func(fault.Reason) string, separator string) string {
	if len(n.status.Degraded) == 0 {
		return "none"
	}
	var texts []string
	for _, r := range n.status.Degraded {
		texts = append(texts, of(r))
	}

	return strings.Join(texts, separator)
}
