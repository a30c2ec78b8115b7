package inspect

import (
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestFindImageVerdict(t *testing.T) {
	t.Parallel()
	failed := func(code fault.Code, exit int) *report.Status {
		return &report.Status{State: report.Failed, Code: code, Exit: exit}
	}
	held := &report.Status{State: report.Degraded, Held: &report.Held{Plan: "sha256:1", Why: "it was unhealthy"}}

	given := NodeStatus{Status: emptyStatus(), Condition: Failing, NotStarted: "243", NotGiven: true}
	onGood := func(code fault.Code, exit int, kept string, isOpen bool) NodeStatus {
		s := failed(code, exit)
		s.Generation = 1
		return NodeStatus{Status: s, Kept: kept, Gate: Gate{Open: isOpen, Generation: 1}}
	}

	for name, test := range table.Map[struct {
		Code fault.Code
		Exit int
		Want bool
	}](t, `
		rolled back            | rolled-back             | 50 | false
		rollback failed        | rollback-failed         | 51 | false
		name of another node   | node-is-another-machine | 50 | true
		invalid site           | syntax                  | 10 | false
		removed flag           | kubelet-flag            | 10 | false
		copied disk            | identity                | 10 | true
		host name              | node-name               | 10 | true
		missing file           | file-missing            | 10 | true
		unusable file          | file-unusable           | 10 | true
		evaluation             | evaluation              | 10 | true
		label of the machine   | label-invalid           | 10 | true
		variable is missing    | variable-missing        | 10 | true
		cluster is unreachable | cluster-unreachable     | 20 | true
		cluster denies access  | cluster-denied          | 22 | true
		no space               | cannot-write            | 40 | true
		systemd refuses        | systemd                 | 52 | false
	`) {
		if got := FindImageVerdict(NodeStatus{Status: failed(test.Code, test.Exit)}); got.Keep != test.Want {
			t.Errorf("%s: got keep %t (%s), want %t", name, got.Keep, got.Why, test.Want)
		}
	}

	for name, test := range map[string]struct {
		status NodeStatus
		want   bool
	}{
		"good":                   {NodeStatus{Status: &report.Status{State: report.OK, Verdict: "good"}}, true},
		"not run":                {NodeStatus{Status: emptyStatus(), Condition: Unfinished}, true},
		"report is lost":         {NodeStatus{Status: emptyStatus(), Condition: Degraded, Problem: "gone"}, true},
		"prelet cannot start":    {NodeStatus{Status: emptyStatus(), Condition: Failing, NotStarted: "226"}, false},
		"no credential":          {given, true},
		"on a good generation":   {onGood(fault.Syntax, 10, "good", true), true},
		"on one without verdict": {onGood(fault.Syntax, 10, "unknown", true), false},
		"behind a shut gate":     {onGood(fault.Syntax, 10, "good", false), false},
		"rolled back to a good":  {onGood(fault.RolledBack, 50, "good", true), false},
		"unhealthy, no rollback": {NodeStatus{Status: &report.Status{State: report.OK, Verdict: "bad"}}, false},
		"unknown verdict":        {NodeStatus{Status: &report.Status{State: report.OK, Verdict: "unknown"}}, true},
		"held":                   {NodeStatus{Status: held}, false},
		"pinned by an operator":  {NodeStatus{Status: held, Pinned: true}, true},
	} {
		if got := FindImageVerdict(test.status); got.Keep != test.want {
			t.Errorf("%s: got keep %t (%s), want %t", name, got.Keep, got.Why, test.want)
		}
	}
}
