package apply

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/report"
)

// Back pins a generation and then goes to it, in this order: one that is killed in between leaves a node that applies
// nothing and says so, and not one that silently applies again what somebody wants to be rid of. When going back fails
// with nothing changed, the pin is as it was.
func Back(s *generation.Store, to int, why string, do func() (int, error)) (int, error) {
	was, err := heldNow(s)
	if err != nil {
		return 0, err
	}
	if err := s.Pin(to, why); err != nil {
		return 0, err
	}
	gen, err := do()
	return gen, was.unlessMoved(err)
}

// Back goes to an earlier generation by hand, which choose names once what a crash left is finished.
func (r *Run) Back(ctx context.Context, why string, choose func() (int, error)) Result {
	if _, err := r.Machine.Recover(ctx); err != nil {
		return r.broken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
	}
	to, err := choose()
	if err != nil {
		return Result{Code: fault.CodeOf(err), Err: err, Summary: err.Error()}
	}
	if other := r.otherMachine(to); other != "" { // before anything is pinned
		err := activate.Foreign(to, other)
		return Result{Code: fault.CodeOf(err), Err: err, Summary: err.Error()}
	}
	var out activate.Outcome
	_, err = Back(r.Store, to, why, func() (int, error) {
		out, err = r.Machine.GoBack(ctx, to, why)
		return out.Generation, err
	})
	if err != nil {
		return Result{Outcome: out, Code: fault.CodeOf(err), Err: err, Summary: err.Error()}
	}
	held := fmt.Sprintf("generation %d was chosen by hand (%s); prelet rollback --release lets go of it", to, why)
	r.Report.Degrade(string(fault.Held), held)
	r.Report.Generation(out.Generation)
	if out.Code == "" {
		out.Why = "" // that it was by hand, and a verdict needs no reason
	}
	r.Report.Verdict(string(out.Verdict), out.Why)
	if out.Verdict == activate.Unknown {
		r.Report.Degrade(string(fault.Unjudged), fmt.Sprintf("nobody could tell whether the kubelet is well on generation %d; prelet verify looks", out.Generation))
	}
	res := r.collect(Result{Outcome: out, Changed: true, Code: out.Code, Held: held})
	res.Summary = fmt.Sprintf("generation %d is in place, with the contents of %d, by hand", out.Generation, to)
	if out.Code != "" {
		res.Summary += ": " + out.Why
	}
	r.Report.Event(report.Event{Stage: "rollback", State: report.Notice, Summary: res.Summary, Message: report.MessageRolledBack})
	return res
}

// otherMachine says in which way a generation was made on another machine than this one, or nothing.
func (r *Run) otherMachine(gen int) string {
	if gen == 0 || r.Machine.Foreign == nil {
		return ""
	}
	return r.Machine.Foreign(gen)
}
