package boot

import "github.com/prelet/prelet/internal/kubelet"

// TakesEffect returns when a label takes effect: "registration" when the Node object is made; on a node that has
// joined, "restart" for the few labels that the kubelet updates when it starts, and "reconcile" for labels that
// the node patches itself, where the site asks for it and the NodeRestriction plugin allows it.
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
