package boot

import "github.com/prelet/prelet/internal/kubelet"

// TakesEffect says when a label takes effect: "registration" when the Node object is made; on a node that has joined,
// "restart" for the few that the kubelet brings up to date when it starts anew, and "reconcile" for those that the node
// patches itself, where the site has that done and the NodeRestriction plugin lets a node.
func (p *Plan) TakesEffect(key string) string {
	switch a := p.Node.Activation; {
	case !p.Kubelet.Joined:
		return "registration"
	case kubelet.FollowsRestart(key):
		return "restart"
	case a != nil && a.ReconcileLabels && kubelet.CheckNodeKey(key, "") == nil:
		return "reconcile"
	}
	return "registration"
}
