package boot

import (
	"context"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// checkNameIsFree refuses to join under a name that another machine has, and that is Ready: the API server would let
// both be one Node, by turns. It asks only when the node is about to join, with what it joins with. Where the cluster
// does not say, the node joins. A recording that is older than the question was never about another machine.
func checkNameIsFree(ctx context.Context, tape *world.Tape, b basis, n node.Node, takeover bool) (found Findings) {
	isAboutToJoin := slices.ContainsFunc(n.Files, func(f node.File) bool { return f.Purpose == "bootstrap-kubeconfig" })
	if tape == nil || b.kubelet.Joined || !isAboutToJoin || b.access.Token == "" || takeover || b.identity.Takeover {
		return found
	}

	req := world.NodeReq{Access: b.access}
	for _, f := range n.Flags {
		switch {
		case f.Assumed:
		case f.Name == "cloud-provider" && f.Value != "" && f.Value != "external":
			return found // inside of the kubelet: it names the node
		case f.Name == "hostname-override":
			req.Name = f.Value
		}
	}

	a, _, err := world.NodeOf.Ask(ctx, tape, req)
	at := hcl.Range{}
	if b.identity.Name != nil {
		at = b.identity.NameRange
	}
	switch {
	case err != nil:
	case a.Taken != "":
		found.report(origin.Error(fault.NodeNameTaken, at, "Another machine is node "+a.Name,
			"The cluster has a node %s that is Ready and is another machine: %s. Two machines of one name take its pods, "+
				"addresses and certificates from each other. Give this machine another name (node { name = … }), or shut the "+
				"other one down: when its node is NotReady, or deleted, this machine joins. If this machine shall have the "+
				"name at once: `prelet run --takeover`.", a.Name, a.Taken))
	case a.Note != "":
		found.report(origin.Note(fault.NodeNameTaken, at, "Whether node "+a.Name+" is another machine is not known",
			"The cluster does not say it to who joins: %s. The node joins all the same.", a.Note))
	}

	return found
}
