package run

import (
	"context"
	"path/filepath"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	// owedVerdict is in the run folder while the kubelet of this boot has no verdict, or a bad one, although its files
	// have a good one. prelet-verify.service starts if it exists.
	owedVerdict = "verdict.owed"

	// manyStarts is how often a kubelet fails until it counts as unhealthy, as on a new generation.
	manyStarts = 3
	lookAgain  = 2 * time.Second
)

func owedVerdictPath(h *machine.Host) string { return filepath.Join(h.RunDir, owedVerdict) }

// OwesVerdict reports whether the kubelet of this boot has no verdict.
func OwesVerdict(h *machine.Host) bool {
	look, err := h.RunRoot.Look(owedVerdictPath(h), nodefile.FollowAll)
	if err != nil {
		return false
	}
	look.Close()

	return true
}

// oweVerdict forgets that a verdict is owed, after one has been reached, and requests a verdict on the kubelet of this
// boot, after a run that changed nothing: its files have a verdict, but the image, the kubelet's program and its
// dependencies may have changed since. The start of a kubelet starts prelet-verify.service, so nothing is requested for
// a running kubelet.
func (r *nodeRun) oweVerdict(ctx context.Context) error {
	if r.Off {
		return nil
	}
	h := r.host
	var err error
	isGoodAgain := r.Report == nil && h.Self == machine.VerifyUnit && r.Code == ""
	if v := r.Outcome.Verdict; v == activation.Good || v == activation.Bad || isGoodAgain {
		err = atomicfile.Remove(owedVerdictPath(h))
	}
	gen, isSettled := r.readSettled()
	isUnused := gen == 0 // a node without a site
	if h.Self != machine.BootUnit || !isSettled || isUnused || activation.Newer(r.Store) != nil {
		return err
	}
	if u, err := h.Units.Look(ctx, r.UnitName()); err == nil && u.Active == "active" {
		return nil
	}

	return atomicfile.File(owedVerdictPath(h), 0o644, nil)
}

// checkSettled checks the kubelet on a generation that has a verdict, and reports the result in the status. Its files
// have not changed, so nothing is rolled back. prelet-verify.service checks it only where a verdict is owed.
func (r *nodeRun) checkSettled(ctx context.Context, gen int) error {
	h := r.host
	isOwed := h.Self == machine.VerifyUnit && OwesVerdict(h)
	err := r.checkKubelet(ctx, gen, isOwed)
	if err != nil || h.Self != "" && !isOwed {
		return err
	}

	r.follows = (*nodeRun).ofLook

	return nil
}

// checkKubelet checks a kubelet that was judged already, and writes nothing: by hand by one look, and where a verdict
// is owed with the patience of a verdict on a new generation.
func (r *nodeRun) checkKubelet(ctx context.Context, gen int, isOwed bool) error {
	cur, err := r.Store.Current()
	switch {
	case err == nil && cur != nil:
		gen = cur.Gen
	case isOwed:
		gen = 0 // a node without a site
	}
	r.Outcome.Generation = gen
	if gen == 0 || r.host.Self != "" && !isOwed {
		return nil
	}

	patience := time.Duration(0)
	if isOwed {
		spec, err := r.Machine.SpecOf(gen)
		if err != nil {
			return err
		}
		patience = spec.Timeout()
	}

	return r.examine(ctx, gen, patience, isOwed)
}

// examine checks a kubelet that was judged already, until it is healthy, its unit has failed, or patience is over. It
// writes nothing. The lock is free afterwards, because the checks wait for a kubelet that has just started.
func (r *nodeRun) examine(ctx context.Context, gen int, patience time.Duration, isOwed bool) error {
	if err := r.Store.Unlock(); err != nil {
		return err
	}

	clock := r.host.Clock
	for end := clock.Monotonic() + patience; ; {
		checks, cause, err := r.Machine.Examine(ctx, gen)
		if err != nil {
			checks = []activation.CheckResult{{
				Name:    "plan",
				State:   "failed",
				Message: err.Error(),
			}}
		}
		r.Result = commit.DecideLook(gen, activation.Judgement{Checks: checks, Cause: cause}, isOwed)

		isEnded := r.Code == "" || clock.Monotonic() >= end || r.hasFailed(ctx, gen)
		if isEnded || clock.Sleep(ctx, lookAgain) != nil {
			return nil
		}
	}
}

// hasFailed reports whether the kubelet's unit has failed, or ends again and again.
func (r *nodeRun) hasFailed(ctx context.Context, gen int) bool {
	spec, err := r.Machine.SpecOf(gen)
	if err != nil {
		return true
	}
	u, err := r.Machine.Node.Look(ctx, spec.Unit)

	return err == nil && (u.Active == "failed" || u.Active != "active" && u.Restarts >= manyStarts)
}
