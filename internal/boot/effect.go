package boot

import "github.com/prelet/prelet/internal/kubelet"

// TakesEffect says when a label takes effect: "registration" when the Node object is made, "restart" for the few
// that the kubelet brings up to date when it restarts.
func (p *Plan) TakesEffect(key string) string {
	if p.Kubelet.Joined && kubelet.FollowsRestart(key) {
		return "restart"
	}
	return "registration"
}
