package run

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// A site that was pulled after the last run waits for the next one: a boot, prelet run, or, if the site enables that, a
// run that a check between boots starts. The check plans and decides; prelet-apply.service decides again under the
// lock, and only then runs. prelet never cordons or drains a node.

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

// whyPulledWaits decides about the pulled site of a node; nil also if there is none that waits.
func whyPulledWaits(
	ctx context.Context, e *machine.Env, h *machine.Host, n *machine.Node, p *evaluate.Plan, last *report.Status,
) (wait *report.Wait, isPending bool) {
	used := ""
	if last.Delivery != nil {
		used = last.Delivery.Used
	}
	if n.Delivery == nil || n.Delivery.Used == "" || n.Delivery.Used == used {
		return nil, false
	}

	block, err := e.DeliveryBlock(n.Where)
	o := occasion{isEnabled: err == nil && block.Apply, plan: p}
	if n.Store != nil {
		j, err := n.Store.Journal()
		o.held = commit.WhyHeld(n.Store, p)
		o.owesVerdict = err != nil || j != nil || OwesVerdict(h)
	}
	u, err := h.Units.Look(ctx, machine.ApplyUnit)
	o.isBusy = err != nil || h.Self != machine.ApplyUnit && u.Active != "inactive" && u.Active != "failed"

	wait = o.whyWaits(func() string { return whyNotDrained(ctx, h) })
	if wait != nil {
		wait.Why = e.Redactor.String(wait.Why)
	}

	return wait, true
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
	case n.IsDrained():
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

const (
	// applyFile is in the run folder from the decision of a check until the run that it starts decides again. It has
	// the time of the monotonic clock.
	applyFile = "apply"
	// maxDecided is how long that decision asks for another one. Later, somebody else has started the unit.
	maxDecided = time.Minute
)

// startApply starts prelet-apply.service for a site that does not wait.
func (c *driftCheck) startApply(ctx context.Context) error {
	if !c.applies {
		return nil
	}
	now := strconv.FormatInt(int64(c.host.Clock.Monotonic()), 10)
	err := atomicfile.File(filepath.Join(c.host.RunDir, applyFile), 0o600, []byte(now))
	if err == nil {
		_, err = c.host.Units.Start(ctx, machine.ApplyUnit, 0)
	}

	return err
}

// isDecided reports whether a check has started this run. The lock is held.
func isDecided(h *machine.Host) bool {
	if h.Self != machine.ApplyUnit {
		return false
	}
	text, err := nodefile.ReadFile(filepath.Join(h.RunDir, applyFile), nodefile.Max)
	at, failed := strconv.ParseInt(string(text), 10, 64)

	return err == nil && failed == nil && h.Clock.Monotonic()-time.Duration(at) < maxDecided
}

// decideAgain decides again, under the lock, about a run that a check has started, and prints why the site waits after
// all. Runs of other callers do not wait, nor does a run that finishes an interrupted commit, or begins again after it
// was killed behind its decision.
func decideAgain(ctx context.Context, e *machine.Env, h *machine.Host, store *generation.Store) (waits bool) {
	if j, err := store.Journal(); isDecided(h) && err == nil && !j.IsUnfinished() {
		defer h.ExtendTimeout(machine.MaxPlanning)()
		n := e.Open(machine.Where{Root: h.Root, MustBeSigned: true}, store)
		defer n.Close()
		last, err := h.LoadReport()
		if err != nil {
			last = &report.Status{}
		}

		wait, isPending := whyPulledWaits(ctx, e, h, n, n.PlanUnless(ctx), last)
		switch waits = wait != nil || !isPending; {
		case wait != nil:
			e.Say("the pulled site waits: " + wait.Why)
		case waits:
			e.Say("no pulled site waits")
		}
	}
	e.SayError(atomicfile.Remove(filepath.Join(h.RunDir, applyFile)))

	return waits
}
