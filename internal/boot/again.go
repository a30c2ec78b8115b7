package boot

import (
	"context"
)

// WithKubelets returns the plans of the same machine with a kubelet of each of some versions, over the same answers:
// the steps from decide to rules, so nothing is compared with the disk. It needs Options.Advises, and returns nil if
// the run ended before its step rules.
func (p *Plan) WithKubelets(ctx context.Context, versions []string) (plans []*Plan) {
	if p.afterGather == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.afterGather.settings.deadline)
	defer cancel()

	for _, version := range versions {
		run := *p.afterGather
		run.setKubelet(version)
		run.runAll(ctx, run.runDecide, run.runRender, run.runRules)
		plans = append(plans, run.makePlan())
	}

	return plans
}

// setKubelet replaces the version of the kubelet. The tables answer for its flags and gates.
func (p *progress) setKubelet(version string) {
	version = "v" + version
	p.kubelet.accepts = nil
	p.kubelet.Version = &version
	p.decided.basis.Kubelet.Version = &version
}
