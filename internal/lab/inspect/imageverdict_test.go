package inspect

import (
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/report"
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

	for name, test := range map[string]struct {
		status NodeStatus
		want   bool
	}{
		"good":                   {NodeStatus{Status: &report.Status{State: report.OK, Verdict: "good"}}, true},
		"not run":                {NodeStatus{Status: emptyStatus(), Condition: Unfinished}, true},
		"report is lost":         {NodeStatus{Status: emptyStatus(), Condition: Degraded, Problem: "gone"}, true},
		"prelet cannot start":    {NodeStatus{Status: emptyStatus(), Condition: Failing, NotStarted: "226"}, false},
		"rolled back":            {NodeStatus{Status: failed(fault.RolledBack, 50)}, false},
		"rollback failed":        {NodeStatus{Status: failed(fault.RollbackFails, 51)}, false},
		"name of another node":   {NodeStatus{Status: failed(fault.OtherMachine, 50)}, true},
		"invalid site":           {NodeStatus{Status: failed(fault.Syntax, 10)}, false},
		"no credential":          {given, true},
		"removed flag":           {NodeStatus{Status: failed(fault.KubeletFlag, 10)}, false},
		"copied disk":            {NodeStatus{Status: failed(fault.Identity, 10)}, true},
		"host name":              {NodeStatus{Status: failed(fault.NodeName, 10)}, true},
		"missing file":           {NodeStatus{Status: failed(fault.FileMissing, 10)}, true},
		"unusable file":          {NodeStatus{Status: failed(fault.FileUnusable, 10)}, true},
		"evaluation":             {NodeStatus{Status: failed(fault.Evaluation, 10)}, true},
		"label of the machine":   {NodeStatus{Status: failed(fault.LabelInvalid, 10)}, true},
		"on a good generation":   {onGood(fault.Syntax, 10, "good", true), true},
		"on one without verdict": {onGood(fault.Syntax, 10, "unknown", true), false},
		"behind a shut gate":     {onGood(fault.Syntax, 10, "good", false), false},
		"rolled back to a good":  {onGood(fault.RolledBack, 50, "good", true), false},
		"variable is missing":    {NodeStatus{Status: failed(fault.VariableMissing, 10)}, true},
		"cluster is unreachable": {NodeStatus{Status: failed(fault.ClusterUnreachable, 20)}, true},
		"cluster denies access":  {NodeStatus{Status: failed(fault.ClusterDenied, 22)}, true},
		"no space":               {NodeStatus{Status: failed(fault.CannotWrite, 40)}, true},
		"systemd refuses":        {NodeStatus{Status: failed(fault.Systemd, 52)}, false},
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
