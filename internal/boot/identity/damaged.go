package identity

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// CheckDamaged sets a client certificate aside with which no kubelet starts, if the node can join again: it writes a
// bootstrap kubeconfig, or the image has one. Otherwise a warning names the files and the command that removes them.
// An identity of another machine, which is removed in whole, has priority.
func CheckDamaged(
	ctx context.Context, tape world.Source, in stages.Inputs, n node.Node, previous *Previous,
) (*Previous, origin.Collector) {
	var found origin.Collector
	d := in.Kubelet.Damaged
	if d == nil || in.Kubelet.Joined || previous != nil {
		return previous, found
	}

	why := origin.Capitalize(d.Why) + ". The kubelet loads it before it joins, and ends. "
	if len(d.Files) == 0 || !canJoin(ctx, tape, n) {
		found.Warn(
			fault.Identity, hcl.Range{}, damagedSummary,
			"%sThe node has to join again, with a bootstrap kubeconfig. To remove what is damaged: `%s`.",
			why, d.Remove,
		)
		found.Degrade(fault.Identity, d.Why+", so the kubelet does not start; "+d.Remove)
		return nil, found
	}

	found.Warn(
		fault.Identity, hcl.Range{}, damagedSummary,
		"%sThe run removes it, its generation keeps the content, and the node joins again with the token.", why,
	)

	return &Previous{Why: d.Why, Damaged: true, Files: d.Files}, found
}

const damagedSummary = "The kubelet's client certificate is damaged"

// canJoin reports whether the kubelet will have a bootstrap kubeconfig, by the plan or by the image.
func canJoin(ctx context.Context, tape world.Source, n node.Node) bool {
	if _, isPlanned := n.FindPurpose("bootstrap-kubeconfig"); isPlanned {
		return true
	}
	req := world.TargetReq{Path: bootstrapConf, Secret: true}
	a, _, err := world.Target.Ask(ctx, tape, req)

	return err == nil && a.Exists && !a.Dir
}

// bootstrapConf is the kubeconfig with which a kubelet of kubeadm's unit joins.
const bootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
