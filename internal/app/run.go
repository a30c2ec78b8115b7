package app

import (
	"context"
	"errors"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
)

// RunOptions are the node and the site of a run.
type RunOptions struct {
	Where
	Retry   bool     // try a held plan again, and release a generation that was chosen by hand
	Request []string // the command line that prelet-apply.service runs in place of this process
}

// Ran is the result of a run. Its Code is "" where it succeeded.
type Ran struct {
	apply.Result
	Site     *site.Site      // nil where it could not be opened
	Complete bool            // there is a complete plan, and each of its files could be written
	Messages hcl.Diagnostics // Err in full; nil where Err says it all
	Degraded []boot.Degraded // what is done, but not as the site says
	Reply    *Reply          // of the process that ran it; the rest is empty then
}

// Run does all stages, writes the node's files and waits for the kubelet. Below a root it writes files and touches no
// unit.
func (e *Env) Run(ctx context.Context, o RunOptions) (Ran, error) {
	r, err := e.run(ctx, o)
	r.Complete = r.Plan != nil && r.Plan.Complete
	if placed := apply.Diagnose(r.Plan, r.Err); placed != nil {
		r.Complete, r.Messages = false, hcl.Diagnostics{placed}
	} else {
		r.Messages = apply.Explain(r.Err)
	}

	return r, err
}

func (e *Env) run(ctx context.Context, o RunOptions) (Ran, error) {
	if err := o.Where.check(); err != nil {
		return Ran{}, err
	}

	if o.Root != "" {
		if err := e.refuseRunningRoot(o.Root); err != nil {
			return Ran{}, err
		}
		return e.runRoot(ctx, o)
	}

	if o.Hardware != "" || o.Objects != "" {
		return Ran{}, failure(fault.Usage, "--hardware and --objects stand in for a machine and a cluster: "+
			"give --root as well, so that this node stays as it is")
	}

	h := e.host(ctx)
	defer h.Units.Close()

	if r, err := e.delegate(ctx, h, o.Config, o.Request); r != nil || err != nil {
		return Ran{Reply: r}, err
	}
	return e.runNode(ctx, h, o)
}

// runNode is a run on this node, in this process.
func (e *Env) runNode(ctx context.Context, h *Host, o RunOptions) (Ran, error) {
	if err := h.createRunDir(); err != nil {
		return Ran{}, err
	}
	attempts := apply.Attempts{Dir: h.RunDir}
	if e.Serve != nil {
		asked, err := h.waitToRetry(ctx, attempts)
		if err != nil {
			return Ran{}, err
		}
		if asked && h.Self == ApplyUnit {
			if r := e.serveAll(h); r != nil {
				return Ran{Reply: r}, nil
			}
		}
	}
	store, err := h.lock(ctx)
	if err != nil {
		e.reportUnopened(h, attempts, err)
		return Ran{}, addMessages(err)
	}
	defer store.Close()
	rep := e.startReport(h, false)
	o.Root = h.Root
	p := &planner{Env: e, Host: h, Where: o.Where, Store: store, Report: rep}
	defer p.Close()
	r := &apply.Run{Store: store, Machine: h.machine(store, rep), Report: rep, Plan: p.Plan,
		Options: p.Options, Retry: o.Retry, Off: h.isOff()}
	res := r.Do(ctx)
	p.Remember(res)
	if apply.NeedsDelay(res.Code) || res.Code == fault.Interrupted && store.ReadOnly() != nil { // not finished at once
		e.countFailure(h, attempts)
	} else if err := attempts.Clear(); err != nil {
		e.Say(err.Error())
	}
	status := rep.Status()
	if !res.Outcome.Overtaken || !rep.IsOvertaken() { // else that report is of what is in place now
		if status, err = rep.Finish(res.Code, res.Summary); err != nil {
			e.Say(err.Error())
		}
	}
	out := Ran{Result: res}
	if p.node != nil {
		out.Site = p.node.Site
	}
	for _, r := range status.Degraded {
		out.Degraded = append(out.Degraded, boot.Degraded{Code: fault.Code(r.Code), Summary: r.Summary})
	}
	return out, nil
}

// countFailure counts a run that failed. A run by hand is not repeated, so it does not count.
func (e *Env) countFailure(h *Host, attempts apply.Attempts) {
	if h.Self == "" {
		return
	}
	if err := attempts.AddFailure(); err != nil {
		e.Say(err.Error())
	}
}

// reportUnopened reports a run that could not open the generations, and writes the reason at the gate if that is shut.
// Where another prelet holds the lock, that one reports.
func (e *Env) reportUnopened(h *Host, attempts apply.Attempts, err error) {
	code := fault.CodeOf(err)
	if code == fault.Locked {
		return
	}
	rep := e.startReport(h, false)
	shut, gateErr := h.machine(nil, nil).KeepShut(err.Error())
	if shut {
		rep.HeldBack(activate.DefaultUnit, err.Error())
	}
	if _, reportErr := rep.Finish(code, err.Error()); gateErr != nil || reportErr != nil {
		e.Say(errors.Join(gateErr, reportErr).Error())
	}
	e.countFailure(h, attempts)
}

// runRoot writes below a root where no unit runs.
func (e *Env) runRoot(ctx context.Context, o RunOptions) (Ran, error) {
	store, err := e.lockRoot(ctx, o.Where)
	if err != nil {
		return Ran{}, err
	}
	defer store.Close()
	if _, err := store.Recover(); err != nil && !generation.IsOutdated(err) {
		return Ran{}, addMessages(err)
	}
	n, diags, err := e.open(o.Where, store)
	if err != nil {
		return Ran{}, err
	}
	defer n.Close()
	p := n.planUnless(ctx, diags, e.Progress)
	res := apply.RunBelowRoot(p, n.ApplyOptions, o.Retry, o.Root)

	if res.Err != nil && apply.Diagnose(p, res.Err) == nil {
		return Ran{}, addMessages(res.Err)
	}

	if res.Changed && res.Err == nil {
		if err := apply.Collect(store); err != nil {
			e.Say(err.Error())
		}
	}

	return Ran{Result: res, Site: n.Site, Degraded: p.Degraded}, nil
}
