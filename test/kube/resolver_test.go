package kube

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestResolverAsKubeadm: prelet sets resolvConf where `kubeadm join` does, with systemd-resolved in each state.
func TestResolverAsKubeadm(t *testing.T) {
	t.Parallel()
	c := start(t, ClusterOptions{})
	m := newMember(t, c, NodeOptions{Name: "kubeadm-resolver", Kubeadm: true})
	n, pin := m.Node, m.pin
	must(t, n.Reach(c, fmt.Sprintf("127.0.0.1:%d", c.Port))) // the address in cluster-info, which kubeadm asks next
	m.site("stage \"write\" \"kubelet\" {}")

	must(t, n.Write("/opt/init/systemctl", "#!/bin/sh\n[ \"$1\" != is-active ] || exec /usr/bin/systemctl \"$@\"\n", 0o755))
	kubeadm := []string{
		"/usr/bin/env", "-i", "PATH=/opt/init", "HOME=/root",
		"/usr/bin/kubeadm", "join", "phase", "kubelet-start", "10.0.0.11:6443",
		"--token", c.Token, "--discovery-token-ca-cert-hash", pin, "--node-name", n.Name,
		"--cri-socket", "unix:///nonexistent.sock",
	}

	seen := map[string]bool{}
	for active, service := range map[string]string{
		"active":     "Type=exec\nExecStart=/bin/sleep infinity\n",
		"activating": "Type=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep infinity\n",
		"inactive":   "Type=oneshot\nExecStart=/bin/true\n",
		"failed":     "Type=oneshot\nExecStart=/bin/false\n",
	} {
		must(t, n.Write("/etc/systemd/system/systemd-resolved.service", "[Service]\n"+service, 0o644))
		r, err := n.Run(t.Context(), "sh", "-c", "systemctl daemon-reload; systemctl stop systemd-resolved; "+
			"systemctl start --no-block systemd-resolved; sleep 1; systemctl is-active systemd-resolved")
		if got := strings.TrimSpace(r.Out); err != nil || got != active {
			t.Fatalf("systemd-resolved: got %q, %v; want it %s", got, err, active)
		}
		cleanNode(t, n)
		p := planOf(t, n)
		got := fmt.Sprint(p.Node.Config["resolvConf"])

		timed(t, n, kubeadm, "/var/lib/kubelet/config.yaml")
		text, err := n.Read("/var/lib/kubelet/config.yaml")
		must(t, err)
		var config map[string]any
		must(t, yaml.Unmarshal([]byte(text), &config))
		want := fmt.Sprint(config["resolvConf"])
		seen[want] = true
		if strings.TrimPrefix(got, "<nil>") != strings.TrimPrefix(want, "<nil>") {
			t.Errorf("systemd-resolved is %s: got resolvConf %s, want that of kubeadm, %s", active, got, want)
		}
	}
	if len(seen) != 2 {
		t.Errorf("kubeadm has written %v, want two values", seen)
	}
}
