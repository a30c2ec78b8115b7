package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// eventDrift is the reason of an event between boots; eventGood ends it.
const eventDrift = "PreletDrift"

// maxDrifting is how many paths a summary of a check has.
const maxDrifting = 3

// Check plans the site on this node between boots, and reports the drift that a run would correct: in status and
// metrics, by an event of the Node when the drift changes, and by the conditions with drift that the site declares. It
// changes nothing else. Until a run of this boot has its verdict, which reports by itself, it does nothing.
func Check(ctx context.Context, e *machine.Env) (report.Drift, error) {
	h := e.Host()
	defer h.Units.Close()

	last, err := h.LoadReport()
	if err != nil || last.InBoot(h.BootID) == report.Running || h.Gate().IsShut() || h.IsOff() {
		const summary = "nothing was checked: prelet has not finished a run with an open gate in this boot"
		return report.Drift{Summary: summary}, nil
	}

	n := e.Open(machine.Where{Root: h.Root, MustBeSigned: true}, nil)
	defer n.Close()
	p := n.PlanUnless(ctx)
	if err := machine.CheckStopped(ctx); err != nil {
		return report.Drift{}, err
	}

	found, err := describeDrift(n.Store, p)
	if err != nil {
		return found, err
	}
	if p.Complete {
		found.Needs = string(p.Needs())
	}
	var wait *report.Wait
	isPending := isPending(n, *last)
	if isPending {
		wait = whyPulledWaits(ctx, e, h, n, p)
	}
	applies := isPending && wait == nil
	if wait != nil {
		found.Waits = wait
		found.Summary += "; the pulled site waits: " + wait.Why
	}
	if applies {
		found.Summary += "; " + machine.ApplyUnit + " applies the pulled site"
	}
	found.At = h.Clock.Now().UTC()
	found.Summary = e.Redactor.String(found.Summary)
	for i, path := range found.Changes {
		found.Changes[i] = e.Redactor.String(path)
	}
	if last.Check != nil {
		found.Event = last.Check.Event
	}

	n.Delivery.TakeFailure(last.Delivery)
	c := &driftCheck{env: e, host: h, last: last, plan: p, found: found, applies: applies, delivery: n.Delivery}
	c.publishAll(ctx, c.publications())

	return c.found, nil
}

// driftCheck is a check between boots, with what its publications read.
type driftCheck struct {
	env   *machine.Env
	host  *machine.Host
	last  *report.Status // of the run that it follows
	plan  *evaluate.Plan
	found report.Drift // of the plan; sendDrift sets its event

	applies  bool             // the pulled site does not wait
	delivery *report.Delivery // nil on a node that pulls no site
}

// publications returns the publications of a check, in this order. A failure is printed, and the check goes on.
func (c *driftCheck) publications() []publication {
	return []publication{
		{"drift", c.log, "", "the journal does not have what this check has found"},
		{"event of drift", c.sendEvent, "", "events: the Node does not have that of this check"},
		{"conditions with drift", c.patch, "", "conditions: the Node has those before this check"},
		{"waits", c.annotate, "", "annotations: the Node does not show whether a pulled site waits"},
		{"check", c.write, "", "the status and the metrics do not have this check"},
		{"apply", c.startApply, "", "the pulled site is not applied before the next check"},
	}
}

func (c *driftCheck) publishAll(ctx context.Context, all []publication) {
	for _, p := range all {
		if err := p.publish(ctx); err != nil {
			c.env.Say(p.describe(err))
		}
	}
}

// write writes the drift into the status of the last run and the metrics.
func (c *driftCheck) write(context.Context) error {
	return report.ReplaceChecked(c.host.RunDir, c.last, c.found)
}

// describeDrift returns the files that a run with a plan would change. While the plan is held, those are the files that
// differ from the generation in place, which a run restores.
func describeDrift(store *generation.Store, p *evaluate.Plan) (found report.Drift, err error) {
	if found.Code = origin.Code(p.Diagnostics); found.Code != "" {
		isError := func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError }
		d := p.Diagnostics[slices.IndexFunc(p.Diagnostics, isError)]
		found.Summary = "the site has no plan now: " + d.Summary

		return found, nil
	}

	for _, c := range p.Changes {
		if c.Changes() {
			found.Changes = append(found.Changes, c.File.Path)
		}
	}
	if store != nil && commit.WhyHeld(store, p) != "" {
		found.Changes, err = store.Differing()
	}
	shown := strings.Join(found.Changes[:min(len(found.Changes), maxDrifting)], ", ")
	switch n := len(found.Changes); {
	case n == 0:
		found.Summary = "a run would change nothing"
	case n > maxDrifting:
		found.Summary = fmt.Sprintf("a run would change %s and %d more (prelet plan)", shown, n-maxDrifting)
	default:
		found.Summary = fmt.Sprintf("a run would change %s (prelet plan)", shown)
	}

	return found, err
}

// describeEvent returns the reason of the event of a check, and the changes that a run would make; "" for none.
func describeEvent(found report.Drift) (reason, changes string) {
	if len(found.Changes) == 0 {
		return eventGood, ""
	}

	return eventDrift, found.Summary
}

// log writes to the journal that a run would change something else than at the check before in this boot.
func (c *driftCheck) log(context.Context) error {
	before := ""
	if was := c.last.Check; was != nil {
		_, before = describeEvent(*was)
		before = cmp.Or(string(was.Code), before) // the check before may have had no plan
	}
	reason, changes := describeEvent(c.found)
	if c.found.Code == "" && changes != before {
		logState(c.host, c.last.Generation, reason, c.found.Summary)
	}

	return nil
}

// sendEvent creates an event of the Node if a run would change something else than at the last event. The run that
// applies the pulled site has an event of its own.
func (c *driftCheck) sendEvent(ctx context.Context) error {
	h, found := c.host, &c.found
	reason, changes := describeEvent(*found)
	if h.WhyNotJoined() != "" || found.Code != "" || found.Event == changes || c.applies {
		return nil
	}
	name, _ := h.CertifiedNode()
	err := createEvent(ctx, h, name, reason, found.Summary)
	if err == nil {
		found.Event = changes
	}

	return err
}

// annotate shows in an annotation of the Node why the pulled site waits, if the site enables annotations.
func (c *driftCheck) annotate(ctx context.Context) error {
	a := c.plan.Node.Activation
	isUsed := c.found.Waits != nil || c.last.Check != nil && c.last.Check.Waits != nil
	if !isUsed || a == nil || a.Annotations == nil || c.host.WhyNotJoined() != "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	name, _ := c.host.CertifiedNode()
	n, err := ownNode(ctx, c.host, name)
	if err != nil {
		return err
	}
	wait := cmp.Or(c.found.Waits, &report.Wait{})
	change := annotation.ChangeWaits(n.Annotations, wait.Reason, wait.Why)
	if len(change) == 0 {
		return nil
	}

	return c.host.Probe.Patch(ctx, n.Name, "", change)
}

// patch makes the declared conditions with drift False while a run would change something, and the planned
// one again afterwards. A condition that is not True for another reason stays so. A True one says how old the site
// is.
func (c *driftCheck) patch(ctx context.Context) error {
	h, found := c.host, c.found
	if h.WhyNotJoined() != "" || found.Code != "" || c.plan.Node.Activation == nil {
		return nil
	}
	all := c.plan.Node.Activation.Conditions
	hasDrift := slices.ContainsFunc(all, func(d desired.Condition) bool { return d.Drift })
	if len(all) == 0 || !hasDrift && c.delivery == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	name, _ := h.CertifiedNode()

	return patchConditions(ctx, h, name, func(have []condition.Condition) condition.Patch {
		var want []condition.Condition
		for _, declared := range all {
			i := slices.Index(condition.Types(have), declared.Type)
			if i < 0 {
				continue
			}
			if next, isOurs := c.follow(have[i], declared); isOurs {
				want = append(want, next)
			}
		}

		return condition.Changes(have, want, nil)
	})
}

// follow returns the condition that follows one of the Node, and whether a check may replace it.
func (c *driftCheck) follow(have condition.Condition, d desired.Condition) (next condition.Condition, isOurs bool) {
	next = addStale([]condition.Condition{d.Condition}, c.host, c.delivery)[0]
	if d.Drift && len(c.found.Changes) > 0 {
		next.Status, next.Reason, next.Message = condition.False, condition.Drift, c.found.Summary
	}
	next.Message = c.env.Redactor.String(next.Message)

	switch {
	case have.Reason == condition.Drift:
		return next, true
	case have.Status != condition.True:
		return next, false
	}

	isVerified := have.Reason == condition.Verified || have.Reason == condition.StaleSite

	return next, next.Reason == condition.Drift || next.Status == condition.True && isVerified
}
