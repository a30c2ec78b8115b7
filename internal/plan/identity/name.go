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

// CheckFree refuses to join under the name of another machine that is Ready: the API server would let both
// machines write to one Node. It asks only if the node is about to join, with the credentials of the join. If the
// cluster does not answer, the node joins. In a recording that is older than the question, the name is free.
func CheckFree(ctx context.Context, cluster tape.Source, in stages.Inputs, n desired.Node) hcl.Diagnostics {
	var found origin.Collector
	_, hasBootstrap := n.FindPurpose("bootstrap-kubeconfig")
	hasCluster := len(in.Access.Servers) > 0 || in.Access.DiscoveryFile != ""
	// Without a token the image's own bootstrap kubeconfig is that of the join.
	isAboutToJoin := !in.Kubelet.Joined && hasCluster && (hasBootstrap || in.Access.Token == "")
	name, isCloud := FindNameFlags(n.Flags)
	if !isAboutToJoin || in.Node.Takeover || isCloud {
		return nil
	}

	req := tape.NodeReq{Access: in.Access, Name: name}
	a, _, err := tape.Node.Ask(ctx, cluster, req)
	at := hcl.Range{}
	if in.Node.Name != nil {
		at = in.Node.NameRange
	}
	switch {
	case err != nil:
	case a.Taken != "":
		found.Error(
			fault.NodeNameTaken, at, "Another machine is node "+a.Name,
			"The cluster has a node %s that is Ready and is another machine: %s. "+
				"Two machines with one name take its pods, addresses and certificates from each other. "+
				"Give this machine another name (node { name = … }), or shut the other machine down: "+
				"when its node is not Ready, this machine joins. Only if the other machine is gone for good: "+
				"`prelet run --takeover`.", a.Name, a.Taken,
		)
	case a.Note != "":
		found.Note(
			fault.NodeNameTaken, at, "Could not check whether node "+a.Name+" is another machine",
			"The cluster does not show this to a joining node: %s. The node joins anyway.", a.Note,
		)
	}

	return found.Diags
}
