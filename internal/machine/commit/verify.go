package commit

import (
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
)

// ForStatus returns the code and the summary that the status has of a result.
func (r Result) ForStatus() fault.Reason {
	if r.inStatus == (fault.Reason{}) {
		return fault.Reason{Code: r.Code, Summary: r.Summary}
	}

	return r.inStatus
}

// ReportedOnly returns the result of a verify that succeeds, because prelet.service shows its failure. The status has
// it.
func (r Result) ReportedOnly() Result {
	r.inStatus = r.ForStatus()
	r.Code = ""

	return r
}

// DecideVerify returns the result of a verify. It is pure.
//
// last is how the last run of this boot ended. While its cause persists, or while it is the reason why the gate is
// shut, the status keeps it. Started by the unit, a verify behind a shut gate ends with success: prelet.service shows
// that failure.
func (r Result) DecideVerify(last fault.Reason, byUnit bool) Result {
	r.inStatus = fault.Reason{Code: r.Code, Summary: r.Summary}
	isShut := r.Outcome.HeldBack != ""

	switch {
	case isShut && last.Code != "":
		r.inStatus = last
	case isShut && r.Code != fault.RolledBack:
		r.inStatus.Code = fault.KubeletUnhealthy
	case r.Code == "" && last.Code.IsLasting():
		r.inStatus = fault.Reason{Code: last.Code, Summary: last.Summary + "; " + r.Summary}
	}

	if r.Code == "" && isShut && !byUnit {
		r.Code = fault.KubeletUnhealthy
	}

	return r
}

// DecideLook returns the result of a look at a kubelet that was judged before, by its first failed check. It is pure.
// isOwed: this boot had no verdict.
func DecideLook(gen int, found activation.Judgement, isOwed bool) Result {
	r := Result{Outcome: activation.Outcome{Judgement: found, Generation: gen}}
	i := slices.IndexFunc(found.Checks, func(c activation.CheckResult) bool {
		return c.State == "failed" || c.Name == activation.MachineCheck && c.State != "ok"
	})
	if i < 0 {
		return r
	}

	if c := found.Checks[i]; c.Name == activation.MachineCheck {
		r.Code = fault.OtherMachine
		r.Summary = c.Message
	} else {
		r.Code = fault.KubeletUnhealthy
		r.Summary = fmt.Sprintf("the kubelet is unhealthy on generation %d: %s: %s", gen, c.Name, c.Message)
		if found.Cause != nil {
			r.Summary += "; the kubelet: " + found.Cause.String()
		}
	}
	if isOwed { // the next start of the kubelet is judged again
		r.inStatus = fault.Reason{Code: r.Code, Summary: r.Summary}
		r.Summary += "; its files have not changed, so there is nothing to go back to"
	}

	return r
}

// WithoutOutcome returns the result of a verify whose verdict does not count: only its part for the status stays.
func (r Result) WithoutOutcome() Result { return Result{inStatus: r.inStatus} }

// DecideCovered returns the result of a verify that has requested a run, because a mount hides files of a generation.
func (r Result) DecideCovered(gen int, why, asked string, byUnit bool) Result {
	r = r.WithoutOutcome()
	r.Outcome = activation.Outcome{Generation: gen, HeldBack: why + "; " + asked}
	if !byUnit { // else the failure is that run's
		r.Code = fault.KubeletUnhealthy
	}

	return r
}

// DecideLost returns the result of a verify without a generation, where one was lost, or none was made: why is "".
func DecideLost(why string, isShut bool) Result {
	r := Result{Outcome: activation.Outcome{Judgement: activation.Judgement{Why: why}}}
	if why != "" && isShut {
		r.Outcome.HeldBack = why
		r.Code = fault.KubeletUnhealthy
	}

	return r
}
