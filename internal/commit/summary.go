package apply

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/report"
)

// Summarize returns an outcome in one line.
func Summarize(out activate.Outcome, changed bool) string {
	switch {
	case out.From != 0:
		s := fmt.Sprintf(
			"generation %d was ill and was left; generation %d has the contents of one that was good: %s", out.From,
			out.Generation, out.Why,
		)
		if out.Held {
			s += "; its plan is held until something changes (prelet run --retry)"
		}

		return s
	case out.Verdict == activate.Good:
		return fmt.Sprintf("generation %d is in place, and the kubelet is healthy on it", out.Generation)
	case out.Verdict == activate.Bad:
		return fmt.Sprintf("generation %d is in place, and the kubelet is ill on it: %s", out.Generation, out.Why)
	case out.Verdict == activate.Pending:
		return fmt.Sprintf(
			"generation %d is in place; prelet-verify judges it once the kubelet has started", out.Generation,
		)
	case out.Verdict == activate.Unknown:
		return fmt.Sprintf(
			"generation %d is in place; whether it is healthy could not be told: %s", out.Generation, out.Why,
		)
	case changed:
		return fmt.Sprintf("generation %d is in place", out.Generation)
	}

	if out.Generation == 0 {
		return "nothing to write, so no generation is made; the kubelet starts as it is"
	}

	return fmt.Sprintf("no changes; generation %d is in place", out.Generation)
}

// ReportOutcome reports an outcome.
func ReportOutcome(rep *report.Reporter, out activate.Outcome) {
	rep.Generation(out.Generation)

	verdict := out.Verdict
	if out.InPlace != activate.Unchanged {
		verdict = out.InPlace
	}

	if verdict != activate.Unchanged {
		rep.Mend(string(fault.Unjudged))
	}

	if verdict == activate.Unknown {
		rep.Degrade(
			string(fault.Unjudged),
			fmt.Sprintf(
				"nobody could tell whether the kubelet is well on generation %d, so it is not good yet (%s); "+
					"the next start of the kubelet, prelet run or boot judges it",
				out.Generation, out.Why,
			),
		)
	}

	switch {
	case out.Verdict == activate.Unchanged:
	case out.InPlace == activate.Good || out.InPlace == activate.Pending:
		rep.Verdict(string(out.InPlace), "") // the summary has the failure of the generation before
	case out.InPlace != activate.Unchanged:
		rep.Verdict(string(out.InPlace), out.Why)
	default:
		rep.Verdict(string(out.Verdict), out.Why)
	}

	for _, why := range out.Trouble {
		rep.Degrade(string(fault.UnitFailed), why)
	}

	for _, why := range out.Unwritten {
		rep.Degrade(string(fault.CannotWrite), why)
	}

	if len(out.Checks) > 0 {
		rep.Forget(string(fault.NodeDrift))
	}

	for _, c := range out.Checks {
		if c.State == activate.Drift {
			rep.Note(string(fault.NodeDrift), c.Name+": "+c.Message)
		}
	}

	switch {
	case out.From != 0:
		rep.Event(
			report.Event{
				Stage:   "rollback",
				State:   report.Notice,
				Summary: Summarize(out, true),
				Message: report.MessageRolledBack,
			},
		)
	case out.Verdict == activate.Good:
		rep.Event(
			report.Event{
				Stage:   "verify",
				State:   report.OK,
				Summary: fmt.Sprintf("generation %d is good", out.Generation),
				Message: report.MessageGood,
			},
		)
	case out.Verdict == activate.Unknown:
		rep.Event(report.Event{Stage: "verify", State: report.Notice, Summary: out.Why, Message: report.MessageUnknown})
	}
}

// reportByHand reports the outcome of a rollback by hand.
func reportByHand(rep *report.Reporter, out activate.Outcome, summary string) {
	rep.Generation(out.Generation)
	rep.Verdict(string(out.Verdict), out.Why)
	rep.Event(report.Event{
		Stage: "rollback", State: report.Notice, Summary: summary, Message: report.MessageRolledBack,
	})
}

// reportingTxn reports the number of a generation right after the commit, so that later reports refer to it.
type reportingTxn struct {
	activate.Txn
	rep      *report.Reporter
	released func() // called after the commit
}

// Commit implements activate.Txn.
func (t reportingTxn) Commit() (gen int, err error) {
	gen, err = t.Txn.Commit()
	if err == nil {
		t.rep.Generation(gen)
		t.released()
	}

	return gen, err
}

// ForwardEvents returns a function that reports the steps of activate.
func ForwardEvents(rep *report.Reporter) func(activate.Event) {
	return func(e activate.Event) {
		if e.Generation != 0 { // also after a rollback
			rep.Generation(e.Generation)
		}

		x := report.Event{Stage: e.Step, State: e.State, Summary: e.Summary}
		if e.Step == "commit" && e.State == report.OK {
			x.Message = report.MessageCommitted
		}

		rep.Event(x)
	}
}

// describeFailure returns a failure in one line, for a unit's status: the first error with its place, and without an
// error what is unread. The next step is in the messages.
func describeFailure(p *boot.Plan, err error) string {
	if err != nil {
		return err.Error()
	}

	if p != nil {
		for _, d := range p.Diagnostics {
			if d.Severity != hcl.DiagError && (origin.Code(p.Diagnostics) != "" || origin.CodeOf(d) != fault.Unread) {
				continue
			}

			s := d.Summary
			if d.Subject != nil && d.Subject.Filename != "" {
				s = fmt.Sprintf("%s:%d:%d: %s", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column, s)
			}

			if d.Detail != "" {
				s += ": " + strings.TrimSuffix(strings.Join(strings.Fields(d.Detail), " "), ".")
			}

			return s
		}
	}

	return "the plan is not complete"
}
