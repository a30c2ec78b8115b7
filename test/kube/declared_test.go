package kube

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// declaringSite sets gates of features that the kubelet declares: two against their default, one that the container
// runtime would have to support too.
const declaringSite = `stage "write" "kubelet" {
  kubelet_config {
    patch = {
      featureGates = {
        InPlacePodVerticalScalingMemoryBackedVolumes = true
        RestartAllContainersOnContainerExits         = false
        UserNamespacesHostNetworkSupport             = true
      }
    }
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`

// TestDeclaredFeatures compares the features that a plan of a fleet counts with those that a real kubelet lists in the
// status of its Node, with and without feature gates.
func TestDeclaredFeatures(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, declaringSite)

	plan := prelet(t, m.Node, 0, "plan")
	for _, want := range []string{
		"featureGates.RestartAllContainersOnContainerExits changes where pods are placed",
		"the node adds InPlacePodVerticalScalingMemoryBackedVolumes to its status.declaredFeatures",
		"UserNamespacesHostNetworkSupport (if the container runtime supports it)",
	} {
		if flat := strings.Join(strings.Fields(plan.Out+plan.Err), " "); !strings.Contains(flat, want) {
			t.Errorf("plan: got\n%s\nwant it to contain %q", plan, want)
		}
	}
	m.compareDeclared("with gates")
	m.record("/srv/fleet/with.prelet")

	m.site(quick)
	m.run(0)
	m.restarts()
	m.compareDeclared("without gates")
	m.record("/srv/fleet/without.prelet")

	// Without --config, each recording has its own site.
	r, err := m.Run(t.Context(), "/usr/bin/prelet", "plan", "--from", "/srv/fleet")
	must(t, err)
	for _, want := range []string{
		"RestartAllContainersOnContainerExits 1 of 2",
		"UserNamespacesHostNetworkSupport 1 of 2, if their runtime supports it",
	} {
		if flat := strings.Join(strings.Fields(r.Out), " "); !strings.Contains(flat, want) {
			t.Errorf("plan of both: got\n%s\nwant it to contain %q", r, want)
		}
	}
}

// record writes a recording of the node into a file of the node.
func (m member) record(file string) {
	m.t.Helper()
	must(m.t, os.MkdirAll(m.Root()+"/srv/fleet", 0o755))
	must(m.t, m.Write(file, prelet(m.t, m.Node, 0, "record", "-").Out, 0o600))
}

// compareDeclared compares the Node with a plan of a fleet of this one node.
func (m member) compareDeclared(when string) {
	m.t.Helper()
	must(m.t, m.Write("/srv/one/n1.prelet", prelet(m.t, m.Node, 0, "record", "-").Out, 0o600))
	r := prelet(m.t, m.Node, 0, "plan", "--from", "/srv/one", "-o", "json", "--names")
	var report struct {
		Declares struct {
			Features []struct {
				Name      string
				ByRuntime bool `json:"by_runtime"`
			}
		} `json:"declared_features"`
	}
	must(m.t, json.Unmarshal([]byte(r.Out), &report))
	var want []string
	for _, f := range report.Declares.Features {
		if !f.ByRuntime { // the runtime of this test supports none of those
			want = append(want, f.Name)
		}
	}
	if len(want) == 0 {
		m.t.Fatalf("%s: got no declared feature in\n%s", when, r.Out)
	}

	must(m.t, waitFor(m.t.Context(), time.Minute, "declared features, "+when, func() string {
		node, err := m.c.Client.CoreV1().Nodes().Get(m.t.Context(), m.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !slices.Equal(node.Status.DeclaredFeatures, want) {
			return "got " + strings.Join(node.Status.DeclaredFeatures, " ") + ", want " + strings.Join(want, " ")
		}

		return ""
	}))
	m.t.Logf("%s: the node declares %q", when, want)
}
