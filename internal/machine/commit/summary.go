package commit

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Summarize returns an outcome in one line.
func Summarize(out activation.Outcome, changed bool) string {
	switch {
	case out.From != 0:
		of := "has the contents of a good one"
		if out.AsBefore {
			of = "is as before prelet"
		}
		s := fmt.Sprintf(
			"generation %d was unhealthy and was rolled back; generation %d %s: %s",
			out.From,
			out.Generation,
			of,
			out.Why,
		)
		if out.Held {
			s += "; its plan is held until something changes (prelet run --retry)"
		}

		return s
	case out.Verdict == activation.Good:
		return fmt.Sprintf("generation %d is in place, and the kubelet is healthy on it", out.Generation)
	case out.Verdict == activation.Bad:
		return fmt.Sprintf(
			"generation %d is in place, and the kubelet is unhealthy with it: %s",
			out.Generation,
			out.Why,
		)
	case out.Verdict == activation.Pending:
		return fmt.Sprintf(
			"generation %d is in place; prelet-verify judges it once the kubelet has started",
			out.Generation,
		)
	case out.Verdict == activation.Unknown:
		return fmt.Sprintf(
			"generation %d is in place; whether it is healthy is not known: %s",
			out.Generation,
			out.Why,
		)
	case changed:
		return fmt.Sprintf("generation %d is in place", out.Generation)
	}

	if out.Generation == 0 {
		return "nothing to write, so no generation is made; the kubelet starts as it is"
	}

	return fmt.Sprintf("no changes; generation %d is in place", out.Generation)
}

// describeOverwritten returns the end of a summary: the files of others that were written over, and those that were
// replaced because they could not be read; "" for none.
func (r Result) describeOverwritten() (end string) {
	if paths := generation.ListOverwritten(r.Entries); len(paths) > 0 {
		end = "; it wrote over what somebody had changed: " + strings.Join(paths, ", ")
	}
	if damaged := generation.ListUnreadable(r.Entries); len(damaged) > 0 {
		end += "; it replaced " + strings.Join(damaged, ", ")
	}

	return end
}

// ReportOutcome reports an outcome. summary is how the entry ended, in one line.
func ReportOutcome(rep *report.Reporter, out activation.Outcome, summary string) {
	rep.Generation(out.Generation)
	reportVerdict(rep, out)

	for _, why := range out.Trouble {
		rep.Degrade(fault.UnitFailed, why)
	}

	for _, why := range out.Unwritten {
		rep.Degrade(fault.CannotWrite, why)
	}

	reportDrift(rep, out.Checks)
	reportStep(rep, out, summary)
}

// reportVerdict reports the verdict on the generation in place.
func reportVerdict(rep *report.Reporter, out activation.Outcome) {
	verdict := out.Verdict
	why := out.Why

	if out.InPlace != activation.Unchanged {
		verdict = out.InPlace

		if verdict == activation.Good || verdict == activation.Pending {
			why = "" // the summary has the failure of the generation before
		}
	}

	if verdict != activation.Unchanged {
		rep.ClearDegraded(fault.Unjudged)
	}

	if verdict == activation.Unknown {
		reason := ""
		if out.Why != "" { // a rollback by hand has none
			reason = " (" + out.Why + ")"
		}
		unjudged := fmt.Sprintf(
			"whether the kubelet is healthy with generation %d is not known, so it is not good yet%s; "+
				"the next start of the kubelet, prelet run or boot judges it",
			out.Generation, reason,
		)
		rep.Degrade(fault.Unjudged, unjudged)
	}

	if out.Verdict != activation.Unchanged {
		rep.Verdict(verdict, why)
	}
}

// reportDrift reports which managed files were edited, where the Node object, or the configuration that the kubelet has
// logged, differs from the plan, that the Node is another machine's, and why the kubelet has no certificate for its
// API.
func reportDrift(rep *report.Reporter, checks []activation.CheckResult) {
	if len(checks) > 0 {
		rep.ClearNotes(fault.NodeDrift)
		rep.ClearDegraded(fault.Drift)
		rep.ClearNotes(fault.ConfigDrift)
		rep.ClearNotes(fault.ServingCertificate)
	}

	for _, c := range checks {
		switch {
		case c.Name == activation.MachineCheck:
			rep.ClearDegraded(fault.OtherMachine)
			if c.State != "ok" {
				rep.Degrade(fault.OtherMachine, c.Message)
			}
		case c.State != activation.Drift:
		case c.Name == activation.FilesCheck, c.Name == activation.OtherFilesCheck:
			rep.Degrade(fault.Drift, c.Message)
		case c.Name == activation.ConfigCheck:
			rep.Note(fault.ConfigDrift, c.Message)
		case c.Name == activation.ServingCheck:
			rep.Note(fault.ServingCertificate, c.Message)
		default:
			rep.Note(fault.NodeDrift, c.Name+": "+c.Message)
		}
	}
}

// reportStep reports a rollback or a verdict as a step.
func reportStep(rep *report.Reporter, out activation.Outcome, summary string) {
	switch {
	case out.From != 0:
		rep.Event(report.Event{
			Stage:   "rollback",
			State:   report.Notice,
			Summary: summary,
			Message: report.MessageRolledBack,
		})
	case out.Verdict == activation.Good:
		rep.Event(report.Event{
			Stage:   "verify",
			State:   report.OK,
			Summary: fmt.Sprintf("generation %d is good", out.Generation),
			Message: report.MessageGood,
		})
	case out.Verdict == activation.Unknown:
		rep.Event(report.Event{
			Stage:   "verify",
			State:   report.Notice,
			Summary: out.Why,
			Message: report.MessageUnknown,
		})
	}
}

// describeFailure returns a failure in one line, for a unit's status: the first error with its place, or else the
// unread questions. The next step is in the messages.
func describeFailure(p *evaluate.Plan, err error) string {
	if err != nil {
		return err.Error()
	}

	if p == nil {
		return incomplete
	}

	for _, d := range p.Diagnostics {
		if d.Severity == hcl.DiagError {
			return origin.OneLine(d)
		}
	}

	return incomplete
}

const incomplete = "the plan is not complete"
