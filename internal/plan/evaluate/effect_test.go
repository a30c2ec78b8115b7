package evaluate

import (
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
)

// On a node that has joined a restart brings few labels up to date, and nothing else does.
func TestTakesEffect(t *testing.T) {
	for _, c := range []struct {
		key               string
		joined, reconcile bool
		want              string
	}{
		{"topology.kubernetes.io/zone", true, false, "restart"},
		{"topology.kubernetes.io/region", true, true, "restart"},
		{"kubernetes.io/hostname", true, true, "restart"},
		{"node.kubernetes.io/instance-type", true, true, "restart"},
		{"beta.kubernetes.io/arch", true, true, "restart"},
		{"topology.kubernetes.io/zone", false, true, "registration"},
		{"accelerator", true, false, "registration"},
		{"accelerator", true, true, "reconcile"},
		{"feature.node.kubernetes.io/x", true, true, "reconcile"},
		{"node-role.kubernetes.io/master", true, true, "registration"}, // of a base for an old kubelet
		{"x.node-restriction.kubernetes.io/a", true, true, "registration"},
		{"accelerator", false, true, "registration"},
	} {
		p := &Plan{
			Installed: Installed{Kubelet: tape.KubeletAns{Joined: c.joined}},
			Node:      desired.Node{Activation: &desired.Activation{ReconcileLabels: c.reconcile}},
		}
		if got := p.TakesEffect(c.key); got != c.want {
			t.Errorf("%s, joined %t, reconcile %t: %q, not %q", c.key, c.joined, c.reconcile, got, c.want)
		}
	}
}
