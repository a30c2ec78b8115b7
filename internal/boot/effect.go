package boot

import "github.com/prelet/prelet/internal/kubelet"

// TakesEffect says when a label takes effect: "registration" when the Node object is made, "restart" for the few
// that the kubelet brings up to date when it restarts, "reconcile" where prelet patches them.
func (p *Plan) TakesEffect(key string) string {
	if !p.Kubelet.Joined {
		return "registration"
	}
	switch {
	case kubelet.FollowsRestart(key):
		return "restart"
	case p.Node.Activation != nil && p.Node.Activation.ReconcileLabels:
		return "reconcile"
	}
	return "registration"
}
