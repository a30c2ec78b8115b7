package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/report"
)

// Standing is status.json with the state of the node at this moment.
type Standing struct {
	*report.Status
	Gate        Gate
	Condition   Condition
	Interrupted string // a commit whose writer is gone, and the next step
	Kept        string // status of the generation in place, as it is stored; "" where this user may not read it
	ThisBoot    bool   // the last run was in this boot
	Problem     string // why there is no report of the last run, although there was one; "" where there is one, or was none
	Lost        string // that the generation in place was lost, and what to do; "" when it was not
	NotStarted  string // why systemd could not start prelet.service; "" when it could
}

// Gate is whether the kubelet may start.
type Gate struct {
	Open       bool
	Generation int    // that it may start on; 0 where the gate is shut
	Why        string // it is shut
}

// Condition is the result of `prelet status` in one word.
type Condition string

// The conditions of a node.
const (
	Healthy    Condition = "healthy"
	Failing    Condition = "failing"
	Degraded   Condition = "degraded"   // done, but not as the site says
	Unfinished Condition = "unfinished" // not run in this boot, or still running
)

// idleLooks is the number of checks in a row, longer than systemd waits before it restarts a unit (RestartSec=).
const idleLooks = 25

// Status returns the state of the node. With wait it returns when the run has ended and its generation has a verdict,
// or when no unit is going to give one.
func (e *Env) Status(ctx context.Context, wait bool) (Standing, error) {
	h := e.host(ctx)
	defer h.Units.Close()

	for idle := 0; ; {
		var out Standing
		s, err := report.Load(h.RunDir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Status, out.Condition = emptyStatus(), Unfinished
			if activate.HasRun(ctx, h.Units) {
				out.Condition = Degraded
				out.Problem = "has run in this boot; its report is gone from " + h.RunDir + " (prelet run writes it again)"
			}
		case err != nil:
			out.Status, out.Condition, out.Problem = emptyStatus(), Failing, err.Error()+" (prelet run writes it again)"
		default:
			out.Status, out.Condition = s, conditionOf(s.InBoot(h.BootID))
		}
		out.ThisBoot = out.BootID == h.BootID
		out.Gate, err = readGate(h, out)
		if err != nil {
			out.Condition = Failing
		}
		if out.Problem != "" {
			out.Generation = readInPlace(h)
		}
		if out.NotStarted = whyNotStarted(ctx, h); out.NotStarted != "" {
			out.Condition = Failing
		}
		readStore(ctx, h, &out)
		if out.Lost != "" && !out.Gate.Open && h.gate().Reason() == "" {
			out.Gate.Why = out.Lost
		}
		if out.Lost != "" && out.Condition == Healthy {
			out.Condition = Degraded
		}
		if out.Interrupted != "" && out.Condition == Healthy {
			out.Condition = Failing
		}
		if !wait || out.Condition != Unfinished && out.Verdict != "pending" && out.Interrupted == "" {
			return out, nil
		}
		if idle++; !isIdle(ctx, h, out) {
			idle = 0
		} else if idle >= idleLooks {
			e.Say("nobody is going to judge it: no unit of prelet is at work, and the kubelet does not start")
			return out, nil
		}
		if h.Clock.Sleep(ctx, statusEvery) != nil {
			return out, nil // the state when the wait was stopped
		}
	}
}

// readGate returns the state of the gate. One that is missing, and that nothing has shut, was removed.
func readGate(h *Host, s Standing) (Gate, error) {
	gen, open, err := h.gate().State()
	switch {
	case err != nil:
		return Gate{Why: err.Error()}, err
	case open:
		return Gate{Open: true, Generation: gen}, nil
	}

	why := h.gate().Reason()
	if why == "" && (s.Problem != "" || h.gate().WasOpened()) {
		why = h.gate().Path() + " was removed. A kubelet that runs goes on; at its next start prelet-verify writes the file again"
	}

	return Gate{Why: why}, nil
}

// readInPlace returns the number of the generation in place; 0 for none, or where this user may not read it.
func readInPlace(h *Host) int {
	store, err := generation.OpenReadOnly(h.storeOptions())
	if err != nil {
		return 0
	}
	defer store.Close()

	cur, err := store.Current()
	if err != nil || cur == nil {
		return 0
	}

	return cur.Gen
}

// isIdle reports whether a wait has nothing to wait for: the run has ended or its writer is gone, and no unit is
// active.
func isIdle(ctx context.Context, h *Host, s Standing) bool {
	if s.State == report.Running && s.Interrupted == "" {
		return false
	}
	for _, name := range []string{BootUnit, ApplyUnit, VerifyUnit} {
		u, err := h.Units.Look(ctx, name)
		ended := u.Active == "inactive" || u.Active == "failed" || u.Load == "not-found" ||
			name == BootUnit && u.Active == "active" // it stays active until the next boot
		if err != nil || u.Job != 0 || !ended {
			return false
		}
	}
	if s.Interrupted != "" { // no unit is going to recover it
		return true
	}
	u, err := h.Units.Look(ctx, activate.DefaultUnit)
	return err == nil && u.Job == 0 && u.Load != "not-found" && (u.Active == "inactive" || u.Active == "failed")
}

// readStore adds the stored status of the generation in place, what was interrupted and what was lost, as far as this user
// may read them.
func readStore(ctx context.Context, h *Host, out *Standing) {
	store, err := generation.OpenReadOnly(h.storeOptions())
	if err != nil {
		return
	}
	defer store.Close()

	if j := store.Abandoned(); j != nil {
		out.Interrupted = fmt.Sprintf("whoever put generation %d in place is gone, in the middle of it; "+
			"prelet recover finishes it, if no unit of prelet does", j.Gen)
	}

	out.Lost = h.machine(store, nil).WhyLost(ctx)
	if cur, err := store.Current(); err == nil && cur != nil && cur.Gen == out.Generation {
		out.Kept = string(cur.Status)
	}
}

// emptyStatus is the status of a node where prelet has not run.
func emptyStatus() *report.Status {
	return &report.Status{
		FormatVersion: report.FormatVersion, Degraded: []report.Reason{}, Stages: []report.Stage{},
	}
}

// conditionOf returns the condition of a node whose last run is in a state of package report.
func conditionOf(state string) Condition {
	switch state {
	case report.OK:
		return Healthy
	case report.Degraded:
		return Degraded
	case report.Running:
		return Unfinished
	}
	return Failing
}
