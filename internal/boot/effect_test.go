package boot

import (
	"testing"

	"github.com/prelet/prelet/internal/world"
)

// On a node that has joined a restart brings few labels up to date, and nothing else does.
func TestTakesEffect(t *testing.T) {
	for _, c := range []struct {
		key    string
		joined bool
		want   string
	}{
		{"topology.kubernetes.io/zone", true, "restart"},
		{"topology.kubernetes.io/zone", false, "registration"},
		{"accelerator", true, "registration"},
		{"accelerator", false, "registration"},
	} {
		p := &Plan{Kubelet: world.KubeletAns{Joined: c.joined}}
		if got := p.TakesEffect(c.key); got != c.want {
			t.Errorf("%s, joined %t: %q, not %q", c.key, c.joined, got, c.want)
		}
	}
}
