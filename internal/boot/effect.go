package boot

import (
	"slices"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
)

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

// TaintTakesEffect returns when a taint takes effect: "registration" when the Node object is made, and on a node that
// has joined "reconcile" for taints of the site that are patched with the site's credential.
func (p *Plan) TaintTakesEffect(t node.Taint) string {
	a := p.Node.Activation
	isPatched := p.Kubelet.Joined && a != nil && a.TaintCredential != ""
	if isPatched && t.IsOfSite() && !t.Startup && !t.IsStartup() {
		return "reconcile"
	}

	return "registration"
}

// FileTakesEffect returns when a change of a file takes effect: "restart" of the kubelet, "unit" with the units that
// follow the change, or "reader" for a file of the site that names no unit. It is "" if the file does not change.
func (p *Plan) FileTakesEffect(c FileChange) (effect string, units []string) {
	switch {
	case !c.Changes():
		return "", nil
	case slices.Contains(c.Notifies, p.Restart.Unit):
		return "restart", nil
	case len(c.Notifies) > 0:
		return "unit", c.Notifies
	case c.File.Purpose == "file", c.File.Purpose == "runtime":
		return "reader", nil
	}

	return "", nil
}
