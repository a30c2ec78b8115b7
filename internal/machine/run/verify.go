package run

import (
	"context"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
)

// Verify judges the kubelet where a verdict is awaited, and goes back to the last good generation if it is unhealthy.
// Where none is awaited, it makes the same checks and changes nothing.
func Verify(ctx context.Context, e *machine.Env) (commit.Result, error) {
	h := e.Host()
	defer h.Units.Close()

	v, err := judgeNode(ctx, e, h)
	if v == nil {
		return commit.Result{}, err
	}
	defer v.closeStore()
	v.followUp(ctx)

	return v.Result, err
}

// judgeNode judges this node and publishes the result once. The caller closes the store. It returns nil where the lock
// cannot be had.
func judgeNode(ctx context.Context, e *machine.Env, h *machine.Host) (*nodeRun, error) {
	v := &nodeRun{
		Run:     &commit.Run{SiteUnit: h.KubeletUnit},
		env:     e,
		host:    h,
		follows: (*nodeRun).ofNothing,
		isAgain: true,
	}
	if h.Self == "" && !h.IsOff() {
		if res, ok := describeWithoutGeneration(ctx, h); ok {
			v.Result = res
			v.announce(ctx)
			return v, nil
		}
	}

	store, err := h.LockNode(ctx)
	if h.Self != "" && fault.CodeOf(err) == fault.CannotWrite {
		// prelet.service shows this failure, and the next start of the kubelet tries again: not systemd, each second
		e.Say(err.Error())
		v.announce(ctx)
		return v, nil
	}
	if err != nil {
		return nil, err
	}

	v.Store = store
	if h.IsOff() {
		v.Result = commit.Result{Off: true}
		return v, nil
	}

	e.HideKept(store)
	v.Machine = h.Machine(store)
	err = v.verifyLocked(ctx)
	v.announce(ctx)

	return v, err
}

func (r *nodeRun) closeStore() {
	if r.Store != nil {
		_ = r.Store.Close()
	}
}

func (r *nodeRun) beginReport() { *r = *begin(r.env, r.host, r.Store, true) }

func (r *nodeRun) verifyLocked(ctx context.Context) error {
	h := r.host
	if newer := activation.Newer(r.Store); newer != nil {
		return r.verifyNewer(ctx, newer)
	}

	if h.Self == machine.VerifyUnit {
		_, isOpen, _ := h.Gate().State() // a gate that cannot be read is not open
		found := h.WhyNotStarted(ctx)
		if found.Why != "" && (!h.HasBegun() || found.IsKilled && !isOpen) {
			// As a run that failed before its commit: a node with a good generation starts on it.
			r.beginReport()
			r.KeepWithoutRun(ctx, fault.Systemd.Errorf("%s", found.Why))
			r.Result = r.ReportedOnly()

			return nil
		}
	}

	if isCovered, err := r.runIfCovered(ctx); isCovered || err != nil {
		return err
	}
	if gen, isSettled := r.readSettled(); isSettled {
		return r.checkSettled(ctx, gen)
	}

	return r.judgeOrRun(ctx)
}

// verifyNewer is Verify on a generation of a newer prelet, which is not judged. A gate that is shut opens, as in a run.
// By hand a kubelet behind an open gate is checked, as far as this prelet knows how.
func (r *nodeRun) verifyNewer(ctx context.Context, newer error) error {
	r.env.SayError(newer)

	gen, isOpen, err := r.host.Gate().State()
	if err == nil && isOpen {
		return r.checkKubelet(ctx, gen, false)
	}

	r.beginReport()
	r.EndNewer(ctx)
	if r.host.Self != "" {
		r.Result = r.ReportedOnly()
	}

	return nil
}

// readSettled returns the current generation if no journal is open and the gate is open.
func (r *nodeRun) readSettled() (gen int, isSettled bool) {
	j, err := r.Store.Journal()
	if err != nil || j != nil {
		return 0, false
	}

	gen, isOpen, err := r.host.Gate().State()

	return gen, err == nil && isOpen
}

// judgeOrRun judges the kubelet on the current generation, and requests a run if only a run helps.
func (r *nodeRun) judgeOrRun(ctx context.Context) error {
	h := r.host
	// A gate that was open in this boot, over files that are not those of the generation, or of none: only a run helps.
	isUnit := h.Self != ""
	needsRun := isUnit && (h.Gate().WasOpened() || r.Machine.WhyLost(ctx) != "")

	last := readLastRun(h)
	r.beginReport()
	r.Verify(ctx)
	r.Result = r.DecideVerify(last, isUnit)

	if r.Outcome.Verdict == activation.Unknown { // something may have been mounted meanwhile
		if isCovered, err := r.runIfCovered(ctx); isCovered {
			return err
		}
	}
	r.needsRun = needsRun

	return nil
}

// noRun is the consequence of a failed request for a run.
const noRun = "cannot request prelet run, which puts the files in place"

// askRun requests a run where only that helps.
func (r *nodeRun) askRun(ctx context.Context) (err error) {
	if r.needsRun && r.Outcome.HeldBack != "" {
		_, err = requestRun(ctx, r.host, r.Outcome.HeldBack)
	}

	return err
}

// runIfCovered shuts the gate and requests a run, if a later mount hides files of the current generation. It reports
// whether one does: then that is the result.
func (r *nodeRun) runIfCovered(ctx context.Context) (isCovered bool, err error) {
	j, err := r.Store.Journal()
	if err != nil || j.IsUnfinished() {
		return false, nil // an interrupted commit is finished first
	}

	cur, err := r.Store.Current()
	if err != nil {
		return false, nil
	}

	why := r.Machine.WhyCovered(ctx, cur)
	if why == "" {
		return false, nil
	}

	r.Result = r.WithoutOutcome()
	if err := r.host.Gate().Shut(why); err != nil {
		return true, err
	}

	asked, err := requestRun(ctx, r.host, why)
	if err != nil {
		return true, fault.Systemd.Errorf("%s; %s: %s", why, noRun, err)
	}

	r.Result = r.DecideCovered(cur.Gen, why, asked, r.host.Self != "")

	return true, nil
}

// describeWithoutGeneration describes a node whose store has no current generation: prelet has not written one yet,
// or it was lost. It changes nothing. ok is false if there is something to judge, a commit is unfinished, a run of
// this boot has shut the gate, or the store cannot be read.
func describeWithoutGeneration(ctx context.Context, h *machine.Host) (res commit.Result, ok bool) {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return res, false
	}
	defer store.Close()

	if j, err := store.Journal(); err != nil || j != nil {
		return res, false
	}

	if why := h.Machine(store).WhyLost(ctx); why != "" {
		return commit.DecideLost(why, h.Gate().IsShut()), true
	}

	cur, err := store.Current()

	return res, err == nil && cur == nil && h.Gate().Reason() == ""
}

// readLastRun returns how the last run of this boot ended; an empty value where it did not fail, or where there was
// none.
func readLastRun(h *machine.Host) (last fault.Reason) {
	s, err := h.LoadReport()
	if err != nil || s.BootID != h.BootID {
		return fault.Reason{}
	}

	return fault.Reason{Code: s.ErrorCode(), Summary: s.Summary}
}

// requestRun requests a run in prelet-apply.service, without waiting for it, and describes that. It is called after
// each exit of the kubelet, so it leaves a running one alone. After a failed run it requests one more for each
// reason: that run may have failed before the reason existed, and its cause may be fixed.
func requestRun(ctx context.Context, h *machine.Host, why string) (asked string, err error) {
	u, err := h.Units.Look(ctx, machine.ApplyUnit)

	switch {
	case err != nil:
	case u.Active != "inactive" && u.Active != "failed":
		return machine.ApplyUnit + " is about to run", nil
	case u.Active == "failed" && h.Gate().WasAsked(why):
		return machine.ApplyUnit + " was requested and failed: prelet run tries again", nil
	default:
		if err = h.Gate().MarkAsked(why); err == nil {
			_, err = h.Units.Start(ctx, machine.ApplyUnit, 0)
		}
	}

	return machine.ApplyUnit + " was requested", err
}
