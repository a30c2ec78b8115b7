// Package run changes a node: a run, its verdict, rollback and recovery, and what follows each (publish.go). It
// takes the lock before it writes. Only package commit decides.
package run

import (
	"context"
	"sync"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/plan/hostfiles"
)

// RunOptions are the node and the site of a run. What Where names was checked.
type RunOptions struct {
	machine.Where
	Retry  bool // try a held plan again, and release a pinned generation
	NoHold bool // start the kubelet although a hold of the site is true
	// ThisMachine says that the generations and the identity on the disk are of this machine.
	ThisMachine bool
	Request     []string // the command line that prelet-apply.service runs in place of this process
}

// Run does all stages, writes the node's files and waits for the kubelet. Below a root it writes files and touches no
// unit.
func Run(ctx context.Context, e *machine.Env, o RunOptions) (commit.Result, error) {
	o.MustBeSigned = true

	if o.Root == "" && (o.Hardware != "" || o.Objects != "") {
		return commit.Result{}, fault.Usage.Errorf(
			"--hardware and --objects replace a machine and a cluster: " +
				"give --root as well, so that this node stays as it is",
		)
	}
	h, err := e.HostOf(o.Root, true)
	if err != nil {
		return commit.Result{}, err
	}
	defer h.Units.Close()
	if h.IsBelow() {
		return runRoot(ctx, e, h, o)
	}

	stopLoading := h.ExtendTimeout(machine.MaxLoading)
	elsewhere, err := delegate(ctx, e, h, o.Config, o.Request)
	stopLoading()
	switch {
	case err != nil:
		return commit.Result{}, err
	case elsewhere != nil:
		return *elsewhere, nil
	}

	return runNode(ctx, e, h, o)
}

// waitToRun waits as long as failed runs of this boot require. It returns the result of a waiting request that was
// served instead of the run; nil for none.
func waitToRun(ctx context.Context, e *machine.Env, h *machine.Host) (*commit.Result, error) {
	if e.Serve == nil {
		return nil, nil
	}
	asked, err := waitToRetry(ctx, h)
	if err != nil || !asked || h.Self != machine.ApplyUnit {
		return nil, err
	}

	return serveAll(e, h), nil
}

// begin returns a run that can recover, verify and roll back, but not plan. With again, it adds to the report of an
// earlier process of this boot.
func begin(e *machine.Env, h *machine.Host, store *generation.Store, again bool) *nodeRun {
	rep := e.StartReport(h, again)
	e.HideKept(store)
	r := &nodeRun{
		Run: &commit.Run{
			Store:   store,
			Machine: e.ReportingMachine(h, store, rep),
			Report:  rep,
		},
		env:     e,
		host:    h,
		follows: (*nodeRun).ofRun,
		isAgain: again,
	}
	r.SiteUnit = func() string {
		if r.node != nil {
			return hostfiles.KubeletUnit(r.node.Site)
		}

		return h.KubeletUnit()
	}

	return r
}

// runNode is a run on this node, in this process: it locks the generations, lets package commit plan and apply, and
// publishes how that ended.
func runNode(ctx context.Context, e *machine.Env, h *machine.Host, o RunOptions) (commit.Result, error) {
	stopLoading := sync.OnceFunc(h.ExtendTimeout(machine.MaxLoading))
	defer stopLoading()

	if err := h.CreateRunDir(); err != nil {
		return commit.Result{}, err
	}

	served, err := waitToRun(ctx, e, h)
	switch {
	case err != nil:
		return commit.Result{}, err
	case served != nil:
		return *served, nil
	}

	began := h.Clock.Now()
	store, err := h.Lock(ctx)
	if err != nil {
		reportUnopened(ctx, e, h, err)
		return commit.Result{}, err
	}
	defer store.Close()

	locked := h.Clock.Now()
	r := begin(e, h, store, false)
	r.Report.Span(report.KindStep, "lock", began, locked.Sub(began))

	o.Root = h.Root
	r.where = &o.Where
	defer r.close()

	acceptMachine(e, h, store, o)
	r.Retry = o.Retry
	r.NoHold = o.NoHold
	r.Off = h.IsOff()

	waitForConditions := r.beginConditions(ctx)
	waitForNode := r.beginRivalLook(ctx)
	isEnded := r.Begin(ctx)
	stopLoading()
	for !isEnded {
		options := r.makePlan(ctx)
		waitForConditions()
		waitForNode()
		isEnded = r.Apply(ctx, options)
	}
	waitForConditions()
	waitForNode()

	r.conclude(ctx)
	r.Degraded = r.Report.Status().Degraded

	return r.Result, nil
}

// acceptMachine keeps that the generations on the disk are of this machine, if a person says so. The publication
// "machine" would be too late: the plan and activation leave out what another machine has made.
func acceptMachine(e *machine.Env, h *machine.Host, store *generation.Store, o RunOptions) {
	if o.ThisMachine {
		e.SayError(commit.KeepMachine(store, machineOf(h), h.CertifiedNode, true))
	}
}

// reportUnopened reports a run that could not open the generations, and writes the reason at the gate if that is shut.
// Where another prelet holds the lock, that one reports.
func reportUnopened(ctx context.Context, e *machine.Env, h *machine.Host, err error) {
	code := fault.CodeOf(err)
	if code == fault.Locked {
		return
	}

	r := begin(e, h, nil, false)
	r.follows = (*nodeRun).ofUnopened
	r.Off = h.IsOff()
	shut, gateErr := r.Machine.KeepShut(err.Error())
	if shut {
		r.Report.HeldBack(r.UnitName(), err.Error())
	}
	e.SayError(gateErr)
	r.Code = code
	r.Summary = err.Error()
	r.conclude(ctx)
}

// runRoot writes below a root where no unit runs.
func runRoot(ctx context.Context, e *machine.Env, h *machine.Host, o RunOptions) (commit.Result, error) {
	store, err := h.LockNode(ctx)
	if err != nil {
		return commit.Result{}, err
	}
	defer store.Close()

	if _, err = store.Recover(); err != nil {
		return commit.Result{}, err
	}

	if err := activation.Newer(store); err != nil {
		return commit.Result{}, err
	}

	acceptMachine(e, h, store, o)

	r := nodeRun{Run: &commit.Run{Store: store}, env: e, host: h, follows: (*nodeRun).ofRoot}
	r.planned = planned{where: &o.Where, node: e.Open(o.Where, store)}
	defer r.close()

	p := r.node.PlanUnless(ctx)
	machine.KeepCounter(o.StateDir(), p)
	r.Result = commit.RunBelowRoot(r.node.ApplyOptions(p), o.Retry, o.Root)
	if r.Err != nil && commit.Diagnose(p, r.Err) == nil {
		return commit.Result{}, r.Err
	}
	r.conclude(ctx)

	r.Degraded = p.Degraded

	return r.Result, nil
}
