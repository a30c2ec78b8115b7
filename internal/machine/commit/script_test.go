package commit

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/scripttest"
)

// TestRuns plays whole runs, with the store on a disk and fakes around it: testdata/runs.txtar.
func TestRuns(t *testing.T) {
	for _, script := range scripttest.Load(t, "testdata/runs.txtar") {
		t.Run(script.Name, func(t *testing.T) {
			s := &runScript{bench: newBench(t)}
			scripttest.Run(t, script.Lines, s.do)
		})
	}
}

// runScript is a script on a bench.
type runScript struct {
	*bench
	line   scripttest.Line
	res    Ended
	status *report.Status
}

func (s *runScript) check(what string, got, want any) {
	s.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s\n%s: got %v, want %v; result %+v", s.line, what, got, want, s.res)
	}
}

func (s *runScript) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: got %v, want no error", s.line, err)
	}
}

// planOf returns a complete plan with this hash, or one that failed: unreachable, wrong,
// failed-precondition, or no-site.
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

// run PLAN [retry|off|stopped|with-stage|outdated-state|of-another-machine|hold NAME...|no-hold NAME...]: a run, in a process
// of its own.
func (s *runScript) run(name, how string, holds ...string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	s.open(true)
	s.plan = planOf(name)
	switch how {
	case "retry":
		s.Retry = true
	case "off":
		s.Off = true
	case "stopped":
		cancel()
	case "with-stage":
		s.plan.Node.Activation = &desired.Activation{
			Unit: "site-kubelet.service", SettleMillis: 1000, TimeoutMillis: 60000,
		}
	case "outdated-state":
		s.plan.Changes = []evaluate.FileChange{{
			File:   desired.File{Path: "/etc/memory_manager_state", Kind: desired.Missing, Purpose: "state"},
			Old:    tape.TargetAns{Exists: true, Mode: 0o600},
			Action: "delete", Why: "NUMA node 0 had 2 bytes and has 1", Outdated: true,
		}}
	case "hold", "no-hold":
		s.NoHold = how == "no-hold"
		if name == "wrong" { // it does not come as far as its holds
			break
		}
		s.plan.Node.Activation = &desired.Activation{Unit: activation.DefaultUnit, Rollback: true}
		for _, h := range holds {
			s.plan.Node.Activation.Holds = append(s.plan.Node.Activation.Holds,
				desired.Hold{Name: strings.TrimSuffix(h, "?"), For: 30 * time.Minute, Message: h + " is broken",
					Unknown: strings.HasSuffix(h, "?")})
		}
	case "of-another-machine":
		s.Machine.OtherMachine = func(n kubelet.NodeObject) string { return n.Name + " is another machine" }
	}
	s.res = s.play(ctx)
	s.status = s.finish(s.res)
}

func (s *runScript) do(l scripttest.Line) bool {
	s.t.Helper()
	s.line = l
	a := append(l.Words[1:], "", "")
	all := strings.Join(l.Words[1:], " ")
	switch l.Words[0] {
	case "run":
		s.run(a[0], a[1], l.Words[min(3, len(l.Words)):]...)
	case "below-root": // PLAN [retry]
		s.res = RunBelowRoot(s.options(planOf(a[0])), a[1] == "retry", "/image")
	case "rollback": // GEN: by hand
		s.open(true)
		to := int(a[0][0] - '0')
		s.RollBack(s.t.Context(), to)
		s.res = s.Ended
		s.status = s.finish(s.res)
	case "boot": // the next boot, before prelet
		s.boot += "+"
		s.now = time.Minute
		s.kubelet.Active, s.kubelet.Sub, s.kubelet.Started, s.kubelet.MainPID = "inactive", "dead", 0, 0
		s.must(os.RemoveAll(s.dir + "/run"))
		s.must(os.Mkdir(s.dir+"/run", 0o755))
	case "wait": // DURATION
		d, err := time.ParseDuration(a[0])
		s.must(err)
		s.now += d
	case "set-clock": // DURATION: the wall clock jumps
		d, err := time.ParseDuration(a[0])
		s.must(err)
		s.jump += d
	case "holds-last": // DURATION: of the holds, from now on
		_, rest := FindHolds(s.dir+"/state", s.boot, s.now)
		s.check("rest", rest, a[0])
	case "sick":
		s.sick = all
	case "away":
		s.away = a[0] == "yes"
	case "kubelet": // running|stopped|waiting, for the gate
		if a[0] == "waiting" {
			s.kubelet.Active, s.kubelet.Sub = "activating", "auto-restart"
			break
		}
		if s.kubelet.Started, s.kubelet.MainPID = time.Second, 7; a[0] == "stopped" {
			s.kubelet.Active, s.kubelet.Sub, s.kubelet.Started, s.kubelet.MainPID = "inactive", "dead", 0, 0
		}
	case "seen": // what a commit notes before it stops a kubelet, also one that only waits for the gate
		s.must(s.Machine.Gate.MarkSeen())
	case "lose-gate":
		s.must(os.Remove(s.Machine.Gate.Path()))
	case "damage-journal":
		s.must(os.WriteFile(s.dir+"/state/journal.json", []byte("{"), 0o600))
	case "write": // PATH CONTENT
		s.must(os.WriteFile(s.dir+a[0], []byte(a[1]), 0o644))
	case "mkdir":
		s.must(os.Mkdir(s.dir+a[0], 0o755))
	case "rm":
		s.must(os.RemoveAll(s.dir + a[0]))
	case "link":
		s.must(os.Symlink(a[0], s.dir+a[1]))
	case "agent": // PATH CONTENT: another program writes it while the kubelet is judged
		s.onWatch = func() { s.must(os.WriteFile(s.dir+a[0], []byte(a[1]), 0o644)) }
	case "pin":
		s.must(s.Store.Pin(1, "me"))
	case "pinned":
		_, _, ok := s.Store.Pinned()
		s.check("pinned", ok, a[0] == "yes")
	case "report-held": // an earlier process of this boot has reported it
		s.Report.Held(a[0], "so")
		s.finish(Ended{})

	case "ends": // CODE GENERATION open|shut [held] [error] [changed]: the code, and what the status has
		_, open, err := s.Machine.Gate.State()
		s.must(err)
		got := fmt.Sprint(s.res.Code, " ", s.status.Generation, map[bool]string{true: " open", false: " shut"}[open])
		for word, isSet := range []bool{s.status.Held != nil, s.res.Err != nil, s.res.Changed} {
			if isSet {
				got += " " + []string{"held", "error", "changed"}[word]
			}
		}
		s.check("end", strings.TrimSpace(got), strings.TrimPrefix(all, "ok "))
	case "below": // CODE changed|unchanged SUMMARY
		s.check("end", fmt.Sprint(s.res.Code, s.res.Changed, s.res.Summary),
			fmt.Sprint(strings.TrimPrefix(a[0], "ok"), a[1] == "changed", a[2]))
	case "held": // TEXT: the plan is held for this reason; without TEXT it is not
		s.check("held", s.res.Held, a[0])
	case "applied": // without a failure
		s.check("code, changed", fmt.Sprint(s.res.Code, s.res.Changed), fmt.Sprint(a[0] == "yes"))
	case "fails": // with this code, and the error as the summary
		s.check("code", s.res.Code, a[0])
		s.check("an error as the summary", s.res.Err != nil && s.res.Summary == s.res.Err.Error(), true)
	case "gate-reason":
		s.contains(s.Machine.Gate.Reason(), a[0])
	case "exit":
		s.check("exit status", s.res.Code.Exit(), a[0])
	case "from":
		s.check("generation before a rollback", s.res.Outcome.From, a[0])
	case "summary":
		s.contains(s.res.Summary, a[0])
	case "no-summary":
		s.check(a[0]+" in the summary", strings.Contains(s.status.Summary, a[0]), false)
	case "degraded": // N CODE TEXT: there are N, and the first is this one
		s.check("degraded", len(s.status.Degraded), a[0])
		first := append(s.status.Degraded, fault.Reason{})[0]
		s.check("code of the first", first.Code, a[1])
		s.contains(first.Summary, a[2])
	case "exists": // PATH yes|no
		_, err := os.Stat(s.dir + a[0])
		s.check(a[0]+" exists", err == nil, a[1] == "yes")
	case "logged": // TEXT yes|no
		s.check("logged "+a[0], strings.Contains(s.log.String(), a[0]), a[1] == "yes")
	case "file":
		text, _ := os.ReadFile(s.dir + "/etc/a")
		s.check("/etc/a", string(text), a[0])
	default:
		return false
	}

	return true
}

func (s *runScript) contains(got, want string) {
	s.t.Helper()
	if !strings.Contains(got, want) {
		s.t.Errorf("%s\ngot %q, want %q in it", s.line, got, want)
	}
}
