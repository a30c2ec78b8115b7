package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOlderMinor joins with an older kubelet at an older API server, and lets prelet ask that kubelet for its version.
func TestOlderMinor(t *testing.T) {
	if os.Getenv(oldVariable) == "" {
		t.Skip("this needs another version of Kubernetes: make e2e-kube-old")
	}
	p := programs(t)
	version, err := Version("old/go.mod")
	must(t, err)
	c := start(t, Options{Server: oldProgram(t, p, "kube-apiserver")})
	for _, j := range []joining{
		{name: "kubeadm", site: func(t *testing.T, c *Cluster) map[string]string {
			site := siteOf(t, c, "kubeadm")
			site["zone.prelet.vars"] = "zone = \"az1-r07\"\n"
			return site
		}},
		{name: "drop-in", site: func(t *testing.T, c *Cluster) map[string]string { return siteOf(t, c, "testdata/dropin") }},
	} {
		t.Run(j.name, func(t *testing.T) {
			n := newNode(t, c, NodeOptions{Name: j.name, Kubelet: oldProgram(t, p, "kubelet")}, "10.0.0.11:6443")
			if j.name == "drop-in" {
				base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
				must(t, err)
				must(t, n.Write("/var/lib/kubelet/config.yaml", base["kubelet"], 0o644))
			}
			must(t, n.Credential("bootstrap-token", c.Token))
			must(t, n.Site(j.site(t, c)))
			joined(t, c, n, j)
			node, err := c.Node(t.Context(), j.name)
			must(t, err)
			if got := node.Status.NodeInfo.KubeletVersion; got != version {
				t.Errorf("the kubelet is %s, want %s", got, version)
			}
			if cached, err := n.Read("/var/lib/prelet/kubelet.json"); err != nil || !strings.Contains(cached, version) {
				t.Errorf("prelet keeps of the kubelet %s, %v; want no error and text with %q", cached, err, version)
			}
		})
	}
}

// oldProgram is the path of a program of the older minor.
func oldProgram(t *testing.T, p Programs, name string) string {
	t.Helper()
	version, err := Version("old/go.mod")
	must(t, err)

	return filepath.Join(p.Cache, version, name)
}
