package evaluate

import (
	"bytes"
	"context"
	"reflect"
	"slices"

	"github.com/prelet/prelet/internal/plan/effective"
)

// WithKubelets returns the plans of the same machine with a kubelet of each of some versions, over the same answers:
// the steps from decide to rules, so nothing is compared with the disk. It needs RunInput.Advises, and returns nil if
// the run ended before its step rules.
//
// The last version is planned first. If its node is that of p, only the rules are checked again for the other versions.
func (p *Plan) WithKubelets(ctx context.Context, versions []string) []*Plan {
	if p.afterRender == nil || len(versions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.afterGather.settings.deadline)
	defer cancel()

	var plans []*Plan
	isSame := false
	for _, version := range slices.Backward(versions) {
		var again *Plan
		if isSame {
			again = p.checkRulesAgain(ctx, version)
		}
		if again == nil {
			again = p.planAgain(ctx, version)
		}
		if plans == nil {
			isSame = bytes.Equal(again.Node.Canonical(), p.Node.Canonical())
		}
		plans = append(plans, again)
	}
	slices.Reverse(plans)

	return plans
}

// planAgain goes on after the step gather, with a kubelet of another version.
func (p *Plan) planAgain(ctx context.Context, version string) *Plan {
	run := *p.afterGather
	run.setKubelet(version)
	run.runAll(ctx, run.runDecide, run.runRender, run.runRules)

	return run.makePlan()
}

// checkRulesAgain goes on after the step render, with a kubelet of another version. It returns nil if that version
// works with another configuration: then stages may decide otherwise.
func (p *Plan) checkRulesAgain(ctx context.Context, version string) *Plan {
	run := *p.afterRender
	run.setKubelet(version)
	n := p.Node
	files, err := effective.Merge(run.decided.basis, n)
	if err != nil || !reflect.DeepEqual(files.Merged.Effective(n.Flags), n.Effective) {
		return nil
	}
	run.rendered.files = &files
	run.runAll(ctx, run.runRules)

	out := *p
	out.Complete = out.Complete && !run.hasErrors()
	out.Diagnostics = run.Diags
	out.Kubelet = run.kubelet.KubeletAns
	out.Accepts = nil
	out.DryRun = run.dryRun
	out.Declares = run.declares

	return &out
}

// setKubelet replaces the version of the kubelet. The tables answer for its flags and gates. The question to a binary
// has the version, so that the one in place does not answer for another.
func (p *progress) setKubelet(version string) {
	version = "v" + version
	p.kubelet.accepts = nil
	p.kubelet.Version = &version
	p.decided.basis.Kubelet.Version = &version
}
