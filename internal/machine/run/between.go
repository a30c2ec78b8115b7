package run

import (
	"context"
	"slices"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// A site that was pulled after the last run waits for the next one: a boot, prelet run, or, if the site enables that, a
// run that a check between boots starts. The check plans and decides; prelet-apply.service decides again about its own
// plan, under the lock. prelet never cordons or drains a node.

// The reasons why a pulled site waits, in the order in which they are found.
const (
	waitsDisabled = "disabled" // the site does not enable a run between boots
	waitsNoPlan   = "no-plan"
	waitsHeld     = "held"    // the plan, or a pinned generation
	waitsVerdict  = "verdict" // the kubelet of this boot has none
	waitsRun      = "run"     // another run
	waitsReboot   = "reboot"  // a state of the kubelet's managers changes
	waitsDrain    = "drain"
)

// occasion is what decides whether a pulled site is applied between boots.
type occasion struct {
	isEnabled, owesVerdict, isBusy bool

	plan *evaluate.Plan
	held string // why the plan must not be applied; "" if it may be
}

// whyWaits returns why the pulled site is not applied now; nil if it is. whyNotDrained is asked only for a plan that
// needs a drained node.
func (o occasion) whyWaits(whyNotDrained func() string) *report.Wait {
	removesState := func(c evaluate.FileChange) bool { return c.File.Purpose == "state" && c.Changes() }
	switch {
	case !o.isEnabled:
		return &report.Wait{Reason: waitsDisabled, Why: "it is applied at the next boot, or by prelet run"}
	case !o.plan.Complete:
		return &report.Wait{Reason: waitsNoPlan, Why: "it has no plan on this node"}
	case o.held != "":
		return &report.Wait{Reason: waitsHeld, Why: o.held}
	case o.owesVerdict:
		return &report.Wait{Reason: waitsVerdict, Why: "the kubelet has no verdict yet"}
	case o.isBusy:
		return &report.Wait{Reason: waitsRun, Why: machine.ApplyUnit + " runs"}
	case len(o.plan.Drains) > 0 && slices.ContainsFunc(o.plan.Changes, removesState):
		return &report.Wait{Reason: waitsReboot, Why: "it needs a drained node, and a reboot: " + o.plan.Drains[0]}
	case o.plan.Needs() != evaluate.NeedsDrain:
		return nil
	}

	if why := whyNotDrained(); why != "" {
		return &report.Wait{Reason: waitsDrain, Why: "it needs a drained node, and " + why + ": " + o.plan.Drains[0]}
	}

	return nil
}

// isPending reports whether a node has a pulled site whose plan is not in place. The status is that of this run, or of
// the last.
func isPending(n *machine.Node, s report.Status) bool {
	used := ""
	if s.Delivery != nil {
		used = s.Delivery.Used
	}

	return n.Delivery != nil && n.Delivery.Used != "" && n.Delivery.Used != used
}

// whyPulledWaits returns why the plan of a pulled site is not applied now; nil if it is.
func whyPulledWaits(
	ctx context.Context, e *machine.Env, h *machine.Host, n *machine.Node, p *evaluate.Plan,
) *report.Wait {
	o := occasion{isEnabled: n.Block.Apply, plan: p}
	if n.Store != nil {
		j, err := n.Store.Journal()
		o.held = commit.WhyHeld(n.Store, p)
		o.owesVerdict = err != nil || j != nil || OwesVerdict(h)
	}
	u, err := h.Units.Look(ctx, machine.ApplyUnit)
	o.isBusy = err != nil || h.Self != machine.ApplyUnit && u.Active != "inactive" && u.Active != "failed"

	wait := o.whyWaits(func() string { return whyNotDrained(ctx, h) })
	if wait != nil {
		wait.Why = e.Redactor.String(wait.Why)
	}

	return wait
}

// whyNotDrained returns why the Node of this node is not drained, as far as a node can see that; "" if it is.
func whyNotDrained(ctx context.Context, h *machine.Host) string {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	name, _ := h.CertifiedNode()
	n, err := ownNode(ctx, h, name)
	switch {
	case err != nil:
		return "it is not known whether it is: " + err.Error()
	case n.IsDrained(): // also without a cordon: a controller may keep pods away by a taint
		return ""
	case !n.Unschedulable:
		return "it is not cordoned"
	}

	pods, err := h.Probe.Pods(ctx, n.Name)
	switch {
	case err != nil:
		return "it is not known whether it has pods: " + err.Error()
	case len(pods) > 0:
		return "it has pods"
	}

	return ""
}

// startApply starts prelet-apply.service for a site that does not wait.
func (c *driftCheck) startApply(ctx context.Context) error {
	if !c.applies {
		return nil
	}
	_, err := c.host.Units.Start(ctx, machine.ApplyUnit, 0)

	return err
}

// whyWaits decides, under the lock, about the plan that a run of prelet-apply.service is about to apply; "" if it may.
// A run that a person has asked for does not wait. Any other one decides again: it was started by a check, or by a
// verdict, or after it was killed or has failed.
func (r *nodeRun) whyWaits(ctx context.Context, p *evaluate.Plan) string {
	if r.host.Self != machine.ApplyUnit || r.env.Serve == nil || !isPending(r.node, r.Report.Status()) {
		return ""
	}
	wait := whyPulledWaits(ctx, r.env, r.host, r.node, p)
	if wait == nil {
		return ""
	}

	return "the pulled site waits: " + wait.Why
}
