package identity

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// CheckDamaged sets certificates aside with which no kubelet starts: that of its API, which it gets or makes again, and
// the client's if the node can join again: it writes a bootstrap kubeconfig, or the image has one. Otherwise a warning
// names the files and the command that removes them. An identity of another machine, which is removed in whole, has
// priority.
func CheckDamaged(
	ctx context.Context, answers tape.Source, in stages.Inputs, n desired.Node, previous *Previous,
) (*Previous, origin.Collector) {
	var found origin.Collector
	if previous != nil {
		return previous, found
	}

	if client := in.Kubelet.Damaged; client != nil && !in.Kubelet.Joined {
		need := "The node has to join again, with a bootstrap kubeconfig. "
		if canJoin(ctx, answers, n) {
			need = ""
		}
		previous = setAside(nil, &found, client, "client", "the node joins again", need)
	}
	if serving := findServing(in.Kubelet, n); serving != nil {
		previous = setAside(previous, &found, serving, "serving", "the kubelet gets another one", "")
	}

	return previous, found
}

// findServing returns the certificate with which the API of the node's kubelet would not start; nil for none.
func findServing(k tape.KubeletAns, n desired.Node) *tape.DamagedAns {
	file, _ := n.Effective["tlsCertFile"].(string)
	switch {
	case n.Effective["serverTLSBootstrap"] == true:
		return k.DamagedServing
	case n.Effective == nil, file != "":
		return nil
	}

	return k.DamagedOwn
}

// setAside adds a damaged certificate to the files that the run removes, unless the kubelet lacks something to get
// another certificate.
func setAside(all *Previous, found *origin.Collector, d *tape.DamagedAns, kind, next, need string) *Previous {
	summary := "The kubelet's " + kind + " certificate is damaged"
	why := origin.Capitalize(d.Why) + ". The kubelet loads it when it starts, and ends. "
	if len(d.Files) == 0 || need != "" {
		found.Warn(fault.Identity, hcl.Range{}, summary, "%s%sTo remove what is damaged: `%s`.", why, need, d.Remove)
		found.Degrade(fault.Identity, d.Why+", and no kubelet starts with it; remove it: "+d.Remove)
		return all
	}

	found.Warn(
		fault.Identity, hcl.Range{}, summary,
		"%sThe run removes it, its generation keeps the content, and %s.", why, next,
	)
	if all != nil {
		all.Why += "; " + d.Why
		all.Files = append(all.Files, d.Files...)
		return all
	}

	return &Previous{Why: d.Why, Damaged: true, Files: d.Files, kind: kind, next: next}
}

// canJoin reports whether the kubelet will have a bootstrap kubeconfig, by the plan or by the image.
func canJoin(ctx context.Context, answers tape.Source, n desired.Node) bool {
	if _, isPlanned := n.FindPurpose("bootstrap-kubeconfig"); isPlanned {
		return true
	}
	req := tape.TargetReq{Path: bootstrapConf, Secret: true}
	a, _, err := tape.Target.Ask(ctx, answers, req)

	return err == nil && a.Exists && !a.Dir
}

// bootstrapConf is the kubeconfig with which a kubelet of kubeadm's unit joins.
const bootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
