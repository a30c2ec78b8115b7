package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/check"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

// TestHost checks that doctor warns of what kubeadm checks before a kubelet starts, and that the node stays fit.
func TestHost(t *testing.T) {
	const site = `stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" }
  kubelet_flags { base = "" }
}
`
	s, diags := lang.Parse([]world.SiteFile{{Name: "site.hcl", Text: site}}, lang.Options{Stages: builtin.Stages(), Version: "0.1.0"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	source := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
		switch q.Kind {
		case world.KindKubelet:
			version := "v1.36.3"
			return world.Kubelet.Answer(world.KubeletAns{Version: &version, Joined: true, Cgroup: 2})
		case world.KindOriginal:
			return world.Original.Answer(world.TargetAns{})
		case world.KindTarget:
			return world.Target.Answer(world.TargetAns{})
		case world.KindManaged:
			return world.Managed.Answer(world.ManagedAns{})
		case world.KindHost:
			return world.Answer{Value: []byte(`{"no_forward": true, "listeners": [{"at": "0.0.0.0:10250", "pid": 17, "process": "a\u001b[2J"}]}`)}
		}

		return world.Failure(fault.Absent, "it is not there", "")
	})
	in := well()
	in.Plan = boot.Run(t.Context(), s, boot.Options{Source: source})

	found := Examine(in)
	for _, want := range []string{
		`Port 10250 of the kubelet is in use: Process 17 ("a\x1b[2J") has 0.0.0.0:10250`,
		"The kernel does not forward IPv4 packets: Pods cannot reach other nodes",
	} {
		isFound := false
		for _, f := range found {
			isFound = isFound || f.Check == "machine" && f.State == check.Warning && strings.HasPrefix(f.Summary+": "+f.Why, want)
		}
		if !isFound {
			t.Errorf("doctor: got %+v, want a warning of the machine: %s", found, want)
		}
	}
	if !check.Fit(found) {
		t.Errorf("doctor: got an unfit node, want a fit one: %+v", found)
	}
}
