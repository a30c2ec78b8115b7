package evaluate

import (
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

// On a node that has joined a restart brings few labels up to date, and nothing else does.
func TestTakesEffect(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Key               string
		Joined, Reconcile bool
		Want              string
	}](t, `
- {key: topology.kubernetes.io/zone, joined: true, want: restart}
- {key: topology.kubernetes.io/region, joined: true, reconcile: true, want: restart}
- {key: kubernetes.io/hostname, joined: true, reconcile: true, want: restart}
- {key: node.kubernetes.io/instance-type, joined: true, reconcile: true, want: restart}
- {key: beta.kubernetes.io/arch, joined: true, reconcile: true, want: restart}
- {key: topology.kubernetes.io/zone, reconcile: true, want: registration}
- {key: accelerator, joined: true, want: registration}
- {key: accelerator, joined: true, reconcile: true, want: reconcile}
- {key: feature.node.kubernetes.io/x, joined: true, reconcile: true, want: reconcile}
# of a base for an old kubelet
- {key: node-role.kubernetes.io/master, joined: true, reconcile: true, want: registration}
- {key: x.node-restriction.kubernetes.io/a, joined: true, reconcile: true, want: registration}
- {key: accelerator, reconcile: true, want: registration}
`) {
		p := &Plan{
			Installed: Installed{Kubelet: tape.KubeletAns{Joined: c.Joined}},
			Node:      desired.Node{Activation: &desired.Activation{ReconcileLabels: c.Reconcile}},
		}
		if got := p.TakesEffect(c.Key); got != c.Want {
			t.Errorf("%s, joined %t, reconcile %t: %q, not %q", c.Key, c.Joined, c.Reconcile, got, c.Want)
		}
	}
}
