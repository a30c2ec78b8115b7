package boot

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// checkNameIsFree refuses to join under the name of another machine that is Ready: the API server would let both
// machines write to one Node. It asks only if the node is about to join, with the credentials of the join. If the
// cluster does not answer, the node joins. In a recording that is older than the question, the name is free.
func checkNameIsFree(
	ctx context.Context,
	tape *world.Tape,
	b stages.Inputs,
	n node.Node,
) (found Findings) {
	_, hasBootstrap := n.FindPurpose("bootstrap-kubeconfig")
	hasCluster := len(b.Access.Servers) > 0 || b.Access.DiscoveryFile != ""
	// Without a token the image's own bootstrap kubeconfig is that of the join.
	isAboutToJoin := !b.Kubelet.Joined && hasCluster && (hasBootstrap || b.Access.Token == "")
	name, isCloud := FindNameFlags(n.Flags)
	if tape == nil || !isAboutToJoin || b.Node.Takeover || isCloud {
		return found
	}

	req := world.NodeReq{Access: b.Access, Name: name}
	a, _, err := world.Node.Ask(ctx, tape, req)
	at := hcl.Range{}
	if b.Node.Name != nil {
		at = b.Node.NameRange
	}
	switch {
	case err != nil:
	case a.Taken != "":
		found.Error(
			fault.NodeNameTaken, at, "Another machine is node "+a.Name,
			"The cluster has a node %s that is Ready and is another machine: %s. "+
				"Two machines with one name take its pods, addresses and certificates from each other. "+
				"Give this machine another name (node { name = … }), or shut the other machine down: "+
				"when its node is NotReady or deleted, this machine joins. To take the name over now: "+
				"`prelet run --takeover`.", a.Name, a.Taken,
		)
	case a.Note != "":
		found.Note(
			fault.NodeNameTaken, at, "Could not check whether node "+a.Name+" is another machine",
			"The cluster does not show this to a joining node: %s. The node joins anyway.", a.Note,
		)
	}

	return found
}
