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
	c := start(t, ClusterOptions{Server: oldProgram(t, p, "kube-apiserver")})
	base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)
	for _, j := range []joining{
		{name: "kubeadm", example: "kubeadm"},
		{name: "drop-in", example: "testdata/dropin", files: map[string]string{configFile: base["kubelet"]}},
	} {
		t.Run(j.name, func(t *testing.T) {
			j.node = NodeOptions{Name: j.name, Kubelet: oldProgram(t, p, "kubelet")}
			n := j.join(t, c, FakeRuntime)
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
