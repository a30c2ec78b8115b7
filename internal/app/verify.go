package app

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/report"
)

// Verified is the state of the kubelet on the generation in place.
type Verified struct {
	apply.Result
	Off      bool            // prelet=off: nothing was judged, and Result is empty
	Messages hcl.Diagnostics // Err in full; nil where Err says it all
}

// Verify judges the kubelet where a verdict is awaited, and goes back to the last good generation if it is unhealthy.
// Where none is awaited, it makes the same checks and changes nothing.
func (e *Env) Verify(ctx context.Context) (Verified, error) {
	v, err := e.verify(ctx)
	v.Messages = apply.Explain(v.Err)

	return v, err
}

func (e *Env) verify(ctx context.Context) (Verified, error) {
	h := e.host(ctx)
	defer h.Units.Close()

	if h.Self == "" && !h.isOff() {
		if v, ok := lookWithoutGeneration(ctx, h); ok {
			return v, nil
		}
	}

	store, err := h.lockNode(ctx)
	if h.Self != "" && fault.CodeOf(err) == fault.CannotWrite {
		// prelet.service shows this failure, and the next start of the kubelet tries again: not systemd, each second
		e.Say(err.Error())
		return Verified{}, nil
	}
	if err != nil {
		return Verified{}, err
	}
	defer store.Close()

	if h.isOff() {
		return Verified{Off: true}, nil
	}

	if h.Self == VerifyUnit && !hasBegun(h) {
		if why := whyNotStarted(ctx, h); why != "" {
			return e.keepWithoutRun(ctx, h, store, why)
		}
	}

	if v, covered, err := e.runIfCovered(ctx, h, store); covered || err != nil {
		return v, err
	}

	j, err := store.Journal()
	if err == nil && j == nil {
		if gen, open, gateErr := h.gate().State(); gateErr == nil && open {
			res, err := checkKubelet(ctx, h, store, gen)
			return Verified{Result: res}, err
		}
	}

	// A gate that was open in this boot, over files that are not those of the generation, or of none: only a run helps.
	needsRun := h.Self != "" && (h.gate().WasOpened() || h.machine(store, nil).WhyLost(ctx) != "")

	res, err := e.judge(ctx, h, store)
	if err != nil {
		e.Say(err.Error())
	}

	if needsRun && res.Outcome.HeldBack != "" {
		if _, err := requestRun(ctx, h, res.Outcome.HeldBack); err != nil {
			e.Say(err.Error())
		}
	}

	if res.Outcome.Verdict == activate.Unknown { // something may have been mounted meanwhile
		if v, covered, err := e.runIfCovered(ctx, h, store); covered || err != nil {
			return v, err
		}
	}

	return Verified{Result: res}, nil
}

// runIfCovered shuts the gate and requests a run, if files of the generation in place are hidden by what was mounted
// since. It reports whether they are.
func (e *Env) runIfCovered(ctx context.Context, h *Host, store *generation.Store) (v Verified, covered bool, err error) {
	if j, err := store.Journal(); err != nil || j != nil && j.Phase != generation.PhaseVerify {
		return v, false, nil // an interrupted commit is finished first
	}

	cur, err := store.Current()
	if err != nil {
		return v, false, nil
	}

	why := h.machine(store, nil).WhyCovered(ctx, cur)
	if why == "" {
		return v, false, nil
	}

	if err := h.gate().Shut(why); err != nil {
		return v, true, addMessages(err)
	}

	asked, err := requestRun(ctx, h, why)
	if err != nil {
		return v, true, failure(fault.Systemd, "%s; %s", why, err)
	}

	v.Outcome.Generation, v.Outcome.HeldBack = cur.Gen, why+"; "+asked
	if h.Self == "" { // else the failure is that run's
		v.Code = fault.RolledBack
	}

	return v, true, nil
}

// judge reaches a verdict and reports it. Its error is about the report only.
func (e *Env) judge(ctx context.Context, h *Host, store *generation.Store) (apply.Result, error) {
	last := readLastRun(h)
	rep := e.startReport(h, true)
	r := &apply.Run{Store: store, Machine: h.machine(store, rep), Report: rep}
	res := r.Verify(ctx)

	reported, code := apply.DecideVerify(res, last, h.Self != "")
	if res.Outcome.Overtaken && rep.IsOvertaken() { // that report is of what is in place now
		res.Code = code
		return res, nil
	}

	_, err := rep.Finish(reported.Code, reported.Summary)
	res.Code = code

	return res, err
}

// lookWithoutGeneration returns what there is to say of a node whose store has no generation in place: prelet has done
// nothing on it yet, or the generation was lost. It changes nothing. ok is false where there is something to judge, where a
// commit is unfinished or a run of this boot has shut the gate, and where the store cannot be read.
func lookWithoutGeneration(ctx context.Context, h *Host) (v Verified, ok bool) {
	store, err := generation.OpenReadOnly(h.storeOptions())
	if err != nil {
		return v, false
	}
	defer store.Close()

	if j, err := store.Journal(); err != nil || j != nil {
		return v, false
	}

	if v.Outcome.Why = h.machine(store, nil).WhyLost(ctx); v.Outcome.Why != "" {
		if _, open, err := h.gate().State(); err == nil && !open {
			v.Outcome.HeldBack, v.Code = v.Outcome.Why, fault.RolledBack
		}

		return v, true
	}

	cur, err := store.Current()

	return v, err == nil && cur == nil && h.gate().Reason() == ""
}

// checkKubelet checks a kubelet that was judged already, and writes nothing.
func checkKubelet(ctx context.Context, h *Host, store *generation.Store, gen int) (apply.Result, error) {
	var res apply.Result

	if cur, err := store.Current(); err == nil && cur != nil {
		gen = cur.Gen
	}
	res.Outcome.Generation = gen
	if h.Self != "" || gen == 0 {
		return res, nil
	}

	if err := store.Unlock(); err != nil { // the checks wait for a kubelet that has just started
		return res, addMessages(err)
	}
	checks, cause, err := h.machine(store, nil).Examine(ctx, gen)
	if err != nil {
		checks = []activate.Check{{Name: "plan", State: "failed", Message: err.Error()}}
	}
	res.Outcome.Checks, res.Outcome.Cause = checks, cause

	for _, c := range checks {
		if c.Name == activate.MachineCheck && c.State != "ok" {
			res.Code, res.Summary = fault.OtherMachine, c.Message
			return res, nil
		}
		if c.State != "failed" {
			continue
		}
		res.Code = fault.RolledBack
		res.Summary = fmt.Sprintf("the kubelet is not well on generation %d: %s: %s", gen, c.Name, c.Message)
		if cause != nil {
			res.Summary += "; the kubelet: " + cause.String()
		}

		break
	}

	return res, nil
}

// readLastRun returns how the last run of this boot ended; an empty value where it did not fail, or where there was
// none.
func readLastRun(h *Host) (last apply.Ending) {
	s, err := report.Load(h.RunDir)
	if err != nil || s.BootID != h.BootID {
		return apply.Ending{}
	}

	return apply.Ending{Code: s.ErrorCode(), Summary: s.Summary}
}

// requestRun requests a run in prelet-apply.service, without waiting for it, and returns what was done in words. Each crash
// of the kubelet comes here, so a run that is under way is left alone. One that has failed is requested once for the same
// reason: it may have failed before that reason, and what it failed of may be mended.
func requestRun(ctx context.Context, h *Host, why string) (asked string, err error) {
	u, err := h.Units.Look(ctx, ApplyUnit)

	switch {
	case err != nil:
	case u.Active != "inactive" && u.Active != "failed":
		return ApplyUnit + " is about to run", nil
	case u.Active == "failed" && h.gate().WasAsked(why):
		return ApplyUnit + " was asked for a run, which failed: prelet run tries again", nil
	default:
		if err = h.gate().MarkAsked(why); err == nil {
			_, err = h.Units.Start(ctx, ApplyUnit, 0)
		}
	}

	if err != nil {
		return "", fmt.Errorf("prelet run puts the files in place, and could not be asked for: %w", err)
	}

	return ApplyUnit + " was asked for a run", nil
}

// keepWithoutRun ends a boot in which systemd cannot start prelet.service as a run that failed before its commit: a node
// with a good generation starts on it.
func (e *Env) keepWithoutRun(ctx context.Context, h *Host, store *generation.Store, why string) (Verified, error) {
	rep := e.startReport(h, true)
	r := &apply.Run{Store: store, Machine: h.machine(store, rep), Report: rep}
	res := r.KeepWithoutRun(ctx, failure(fault.Systemd, "%s", why))

	_, err := rep.Finish(res.Code, res.Summary)
	res.Code = "" // prelet.service shows the failure

	return Verified{Result: res}, err
}
