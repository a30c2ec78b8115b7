package commit

import (
	"context"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
)

// Annotation returns the report of an ended run in the annotations of its Node, and the name of the Node. ok is false
// if nothing is to be reported: the site does not enable it, the generation in place is not good, or this is a boot
// that reached no verdict. status is that of the run.
func (r *Run) Annotation(
	ctx context.Context, status report.Status,
) (name string, a annotation.Content, ok bool) {
	cur := readCurrent(r.Store)
	if r.Off || cur == nil || cur.Status != generation.StatusGood {
		return "", a, false
	}

	spec, err := r.Machine.SpecOf(cur.Gen)
	if err != nil {
		return "", a, false
	}

	enabled := spec.Annotations
	if r.isSitesPlan() {
		enabled = nil
		if x := r.Plan.Node.Activation; x != nil {
			enabled = x.Annotations
		}
	}
	if enabled == nil || spec.Node == "" || !r.mayAnnotate(ctx, spec) {
		return "", a, false
	}

	hash, _, _ := strings.Cut(cur.PlanID, "@")

	a = annotation.Content{
		Generation: cur.Gen,
		Plan:       hash,
		Revision:   enabled.Revision,
		Degraded:   listReasons(status),
	}
	if d := status.Delivery; d != nil && d.Used != "" {
		a.Site, a.Ring = d.Used, d.Ring
	}

	return spec.Node, a, true
}

// mayAnnotate reports whether this process has reached a good verdict, is a run outside of the boot, or found that a
// hold has begun or ended. Another boot without a change sends nothing, because a whole fleet may boot at once.
func (r *Run) mayAnnotate(ctx context.Context, spec activation.Spec) bool {
	verdict := r.Outcome.Verdict
	if r.Outcome.InPlace != activation.Unchanged {
		verdict = r.Outcome.InPlace
	}
	if verdict == activation.Good || r.held != nil || r.wereHoldsKnown {
		return true
	}
	if !r.plans { // not a run
		return false
	}

	mayWait, err := r.Machine.Node.MayWait(ctx, spec.Unit)

	return err == nil && mayWait
}

// isSitesPlan reports whether the generation in place is that of the site's plan.
func (r *Run) isSitesPlan() bool {
	isComplete := r.Plan != nil && r.Plan.Complete

	return isComplete && r.Code == "" && r.Held == "" && r.Outcome.From == 0
}

// listReasons returns why a node is degraded. A held plan and a held kubelet are reasons too.
func listReasons(status report.Status) (out []annotation.Reason) {
	all := status.Degraded
	isHeld := func(r fault.Reason) bool { return r.Code == fault.Held }
	if status.Held != nil && !slices.ContainsFunc(all, isHeld) {
		all = append(all, fault.Reason{Code: fault.Held, Summary: status.Held.Why})
	}
	if status.Code == fault.KubeletHeld {
		all = append([]fault.Reason{{Code: status.Code, Summary: status.Summary}}, all...)
	}
	for _, r := range all {
		out = append(out, annotation.Reason{Code: string(r.Code), Summary: r.Summary})
	}

	return out
}
