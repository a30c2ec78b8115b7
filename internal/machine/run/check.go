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
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// eventDrift is the reason of an event between boots; eventGood ends it.
const eventDrift = "PreletDrift"

// maxDrifting is how many paths a summary of a check has.
const maxDrifting = 3

// Check plans the site on this node between boots, and reports what a run would change: in status and metrics, by an
// event of the Node when that changes, and by the conditions with drift that the site declares. It changes nothing
// else. Until a run of this boot has its verdict it does nothing: that reports by itself.
func Check(ctx context.Context, e *machine.Env) (report.Drift, error) {
	h := e.Host()
	defer h.Units.Close()
	r := nodeRun{Run: &commit.Run{}, kind: ofCheck, env: e, host: h}

	var err error
	r.checked, err = h.LoadReport()
	if err != nil || r.checked.InBoot(h.BootID) == report.Running || h.Gate().IsShut() || h.IsOff() {
		const summary = "nothing was checked: prelet has not finished a run with an open gate in this boot"
		return report.Drift{Summary: summary}, nil
	}

	r.node = e.Open(machine.Where{Root: h.Root, MustBeSigned: true}, nil)
	defer r.close()
	r.Plan = r.node.PlanUnless(ctx)
	if err := machine.CheckStopped(ctx); err != nil {
		return report.Drift{}, err
	}

	r.found, err = describeDrift(r.node.Store, r.Plan)
	if err != nil {
		return r.found, err
	}
	r.found.At = h.Clock.Now().UTC()
	r.found.Summary = e.Redactor.String(r.found.Summary)
	for i, path := range r.found.Changes {
		r.found.Changes[i] = e.Redactor.String(path)
	}
	if r.checked.Check != nil {
		r.found.Event = r.checked.Check.Event
	}
	r.publish(ctx)

	return r.found, nil
}

// writeChecked writes what the check found into the status of the last run and the metrics.
func (r *nodeRun) writeChecked(context.Context) error {
	return report.ReplaceChecked(r.host.RunDir, r.checked, r.found)
}

// describeDrift returns what a run with a plan would change. If it holds the plan, it restores files of the generation
// in place.
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

// describeEvent returns the reason of the event of a check, and what a run would change; "" for nothing.
func describeEvent(found report.Drift) (reason, changes string) {
	if len(found.Changes) == 0 {
		return eventGood, ""
	}

	return eventDrift, found.Summary
}

// logDrift writes to the journal that a run would change something else than at the check before in this boot.
func (r *nodeRun) logDrift(context.Context) error {
	before := ""
	if c := r.checked.Check; c != nil {
		_, before = describeEvent(*c)
		before = cmp.Or(string(c.Code), before) // what was before a check without a plan is not known
	}
	reason, changes := describeEvent(r.found)
	if r.found.Code == "" && changes != before {
		r.logState(r.checked.Generation, reason, r.found.Summary)
	}

	return nil
}

// sendDrift creates an event of the Node if a run would change something else than at the last event.
func (r *nodeRun) sendDrift(ctx context.Context) error {
	h, found := r.host, &r.found
	reason, changes := describeEvent(*found)
	if h.WhyNotJoined() != "" || found.Code != "" || found.Event == changes {
		return nil
	}
	name, _ := h.CertifiedNode()
	err := createEvent(ctx, h, name, reason, found.Summary)
	if err == nil {
		found.Event = changes
	}

	return err
}

// patchDrift makes the conditions with drift that the site declares False while a run would change something, and ends
// only what it has begun: a condition that is not True for another reason stays so.
func (r *nodeRun) patchDrift(ctx context.Context) error {
	h, found := r.host, r.found
	if h.WhyNotJoined() != "" || found.Code != "" || r.Plan.Node.Activation == nil {
		return nil
	}
	var all []condition.Condition
	for _, c := range r.Plan.Node.Activation.Conditions {
		if c.Drift {
			all = append(all, c.Condition)
		}
	}
	if len(all) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	name, _ := h.CertifiedNode()
	isDrift := func(c condition.Condition) bool { return c.Reason == condition.Drift }

	return patchConditions(ctx, h, name, func(have []condition.Condition) condition.Patch {
		var want []condition.Condition
		for _, c := range all {
			i := slices.Index(condition.Types(have), c.Type)
			if i < 0 || have[i].Status != condition.True && !isDrift(have[i]) {
				continue
			}
			if len(found.Changes) > 0 {
				c.Status, c.Reason, c.Message = condition.False, condition.Drift, found.Summary
			}
			c.Message = r.env.Redactor.String(c.Message)
			if isDrift(c) || isDrift(have[i]) {
				want = append(want, c)
			}
		}

		return condition.Changes(have, want, nil)
	})
}
