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

	for name, test := range table.YAML[map[string]struct {
		Code fault.Code
		Exit int
		Want bool
	}](t, `
rolled back: {code: rolled-back, exit: 50}
rollback failed: {code: rollback-failed, exit: 51}
name of another node: {code: node-is-another-machine, exit: 50, want: true}
invalid site: {code: syntax, exit: 10}
removed flag: {code: kubelet-flag, exit: 10}
copied disk: {code: identity, exit: 10, want: true}
host name: {code: node-name, exit: 10, want: true}
missing file: {code: file-missing, exit: 10, want: true}
unusable file: {code: file-unusable, exit: 10, want: true}
evaluation: {code: evaluation, exit: 10, want: true}
label of the machine: {code: label-invalid, exit: 10, want: true}
variable is missing: {code: variable-missing, exit: 10, want: true}
cluster is unreachable: {code: cluster-unreachable, exit: 20, want: true}
cluster denies access: {code: cluster-denied, exit: 22, want: true}
no space: {code: cannot-write, exit: 40, want: true}
systemd refuses: {code: systemd, exit: 52}
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
