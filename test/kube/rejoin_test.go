package kube

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// member is a node that has joined a cluster of its own by a site that the test changes.
type member struct {
	*Node
	t   *testing.T
	c   *Cluster
	pin string
}

func newMember(t *testing.T, c *Cluster, o NodeOptions, stages ...string) member {
	t.Helper()
	n := newNode(t, c, o, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	m.site(stages...)
	m.run(0)
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)
	return m
}

// site is the cluster block with the stages given.
func (m member) site(stages ...string) {
	m.t.Helper()
	must(m.t, m.Site(map[string]string{"site.hcl": `
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["` + m.pin + `"]
  token          = credential("bootstrap-token")
  retry          = "5s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
` + strings.Join(stages, "\n")}))
}

func (m member) run(want int, args ...string) Result {
	m.t.Helper()
	return prelet(m.t, m.Node, want, append([]string{"run"}, args...)...)
}

// drained applies what is refused while pods may run.
func (m member) drained() {
	m.t.Helper()
	must(m.t, m.Systemctl(m.t.Context(), "stop"))
	m.run(0)
	must(m.t, m.Systemctl(m.t.Context(), "start"))
	m.run(0)
}

const quick = `stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
stage "write" "kubelet" {}
`

// TestJoinedNeedsNoToken joins, takes the token away on both sides, and runs again.
func TestJoinedNeedsNoToken(t *testing.T) {
	c := start(t, Options{Audit: true})
	m := newMember(t, c, NodeOptions{}, quick)
	must(t, c.Client.CoreV1().Secrets("kube-system").Delete(t.Context(), "bootstrap-token-"+c.Token[:6], metav1.DeleteOptions{}))
	must(t, within(t.Context(), 20*time.Second, "the signature is gone", func() string {
		info, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
		if err != nil || info["jws-kubeconfig-"+c.Token[:6]] != "" {
			return "it is there"
		}
		return ""
	}))
	must(t, m.Credential("bootstrap-token", ""))
	before, err := m.disk()
	must(t, err)
	_, n := asked(t, c, 0)
	m.run(0)
	got, _ := asked(t, c, n)
	if len(got) == 0 || len(got) > 2 {
		t.Errorf("asked %q, want one or two requests", got)
	}
	for _, r := range got {
		if !strings.HasPrefix(r, "system:node:n1 ") {
			t.Errorf("asked as %q", r)
		}
	}
	after, err := m.disk()
	must(t, err)
	if !maps.Equal(before, after) {
		t.Errorf("something was written: %v", difference(before, after))
	}
}

// difference lists what is not the same on both.
func difference(before, after map[string]string) (out []string) {
	for p, was := range before {
		if after[p] != was {
			out = append(out, fmt.Sprintf("%s: %s, was %s", p, after[p], was))
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			out = append(out, p+": new")
		}
	}
	return out
}

// TestTakesEffect changes every kind of label on a node that has joined, and sees on the Node object what the plan has said.
func TestTakesEffect(t *testing.T) {
	c := start(t, Options{})
	labels := func(v string) string {
		return fmt.Sprintf(`stage "label" "x" {
  labels = {
    "topology.kubernetes.io/zone"       = "zone-%[1]s"
    "topology.kubernetes.io/region"     = "region-%[1]s"
    "node.kubernetes.io/instance-type"  = "type-%[1]s"
    "beta.kubernetes.io/instance-type"  = "type-%[1]s"
    "failure-domain.beta.kubernetes.io/zone"   = "zone-%[1]s"
    "failure-domain.beta.kubernetes.io/region" = "region-%[1]s"
    "node.kubernetes.io/rack"           = "rack-%[1]s"
    "example.com/pool"                  = "pool-%[1]s"
  }
}
`, v)
	}
	m := newMember(t, c, NodeOptions{}, labels("one"), quick)
	m.site(labels("two"), quick)
	p := planOf(t, m.Node)
	m.run(0)
	follows := map[string]bool{}
	must(t, within(t.Context(), 20*time.Second, "the kubelet has brought its labels up to date", func() string {
		node, err := c.Node(t.Context(), "n1")
		if err != nil {
			return err.Error()
		}
		for key := range p.Node.Labels {
			follows[key] = strings.HasSuffix(node.Labels[key], "-two")
		}
		if !follows["topology.kubernetes.io/zone"] {
			return fmt.Sprint(node.Labels)
		}
		return ""
	}))
	restart := 0
	for key, l := range p.Node.Labels {
		if (l.TakesEffect == "restart") != follows[key] {
			t.Errorf("%s takes effect at %s, says the plan; after a restart it has followed: %v", key, l.TakesEffect, follows[key])
		}
		if follows[key] {
			restart++
		}
	}
	if restart == 0 || restart == len(p.Node.Labels) {
		t.Errorf("%d of %d labels followed a restart", restart, len(p.Node.Labels))
	}
}

// TestManagerState changes the policies that the kubelet's managers remember on its disk.
func TestManagerState(t *testing.T) {
	c := start(t, Options{})
	policy := func(cpu, memory string) string {
		return fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "reserve" "node" {
  policy = "gke"
  floor  = { cpu = "100m" }
}
stage "write" "kubelet" {
  kubelet_config {
    patch = merge({ cpuManagerPolicy = %q, memoryManagerPolicy = %q },
      %q == "Static" ? { reservedMemory = stage.reserve.node.reserved_memory } : {})
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`, cpu, memory, memory)
	}
	m := newMember(t, c, NodeOptions{}, policy("none", "None"))

	t.Run("by hand the kubelet dies of it", func(t *testing.T) {
		before, err := m.Read("/var/lib/kubelet/config.yaml")
		must(t, err)
		must(t, m.Write("/var/lib/kubelet/config.yaml", strings.Replace(before, "cpuManagerPolicy: none", "cpuManagerPolicy: static", 1), 0o644))
		must(t, m.Systemctl(t.Context(), "restart"))
		must(t, within(t.Context(), 20*time.Second, "the kubelet has died", func() string {
			if s, err := m.Service(t.Context()); err != nil || s.Active == "active" {
				return fmt.Sprint(s, err)
			}
			return ""
		}))
		if !strings.Contains(m.KubeletLog(), "differs from state checkpoint policy") {
			t.Errorf("it died of something else:\n%s", last(m.KubeletLog(), 2000))
		}
	})

	t.Run("through prelet it starts", func(t *testing.T) {
		m.site(policy("static", "Static"))
		p := planOf(t, m.Node)
		gone := map[string]bool{}
		for _, f := range p.Files {
			if f.Action == "delete" && f.Purpose == "state" {
				gone[f.Path] = true
			}
		}
		if !gone["/var/lib/kubelet/cpu_manager_state"] || !gone["/var/lib/kubelet/memory_manager_state"] {
			t.Errorf("the plan takes away %v", gone)
		}
		if r := m.run(40); !strings.Contains(r.Err, "drain the node and reboot it") {
			t.Errorf("while pods may run: %+v", r)
		}
		m.drained()
		running, err := c.Configz(t.Context(), m.Node)
		must(t, err)
		if running["cpuManagerPolicy"] != "static" || running["memoryManagerPolicy"] != "Static" {
			t.Errorf("the kubelet runs with %v and %v", running["cpuManagerPolicy"], running["memoryManagerPolicy"])
		}
		for _, file := range []string{"cpu_manager_state", "memory_manager_state"} {
			text, err := m.Read("/var/lib/kubelet/" + file)
			must(t, err)
			if !strings.Contains(strings.ToLower(text), `"static"`) {
				t.Errorf("%s: %s", file, text)
			}
		}
	})

	t.Run("and back", func(t *testing.T) {
		m.site(policy("none", "None"))
		m.drained()
	})

	t.Run("and back by hand, over a change", func(t *testing.T) {
		if r := prelet(t, m.Node, 40, "rollback"); !strings.Contains(r.Err, "drain the node, systemctl stop kubelet.service, prelet rollback") {
			t.Errorf("while pods may run: %+v", r)
		}
		must(t, m.Systemctl(t.Context(), "stop"))
		prelet(t, m.Node, 0, "rollback")
		must(t, m.Systemctl(t.Context(), "start"))
		running, err := c.Configz(t.Context(), m.Node)
		must(t, err)
		if running["cpuManagerPolicy"] != "static" || running["memoryManagerPolicy"] != "Static" {
			t.Errorf("the kubelet runs with %v and %v", running["cpuManagerPolicy"], running["memoryManagerPolicy"])
		}
	})
}
