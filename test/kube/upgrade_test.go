package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	instanceFile = "/var/lib/kubelet/instance-config.yaml"
	configFile   = "/var/lib/kubelet/config.yaml"
	flagsFile    = "/var/lib/kubelet/kubeadm-flags.env"
)

// upgradeSite is a site that changes a field, removes one and adds others of all shapes. With isKept it writes them to
// kubeadm's instance-config.yaml too.
func upgradeSite(isKept bool) string {
	return fmt.Sprintf(`
locals {
  settings = {
    containerRuntimeEndpoint = "unix://%s"
    maxPods                  = 64
    clusterDomain            = null
    evictionHard = merge(stage.reserve.node.eviction_hard, { "memory.available" = "150Mi", "nodefs.available" = "6%%" })
    featureGates             = { AllAlpha = false }
    podsPerCore              = 7 # as the cluster, until it changes
    kubeReserved             = stage.reserve.node.kube_reserved
  }
}
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "site" {
  labels = { "example.com/zone" = "z1" }
}
stage "write" "kubelet" {
  kubelet_config { patch = local.settings }
  file "instance-config" {
    when    = %t
    path    = "/var/lib/kubelet/instance-config.yaml"
    content = yamlencode(local.settings)
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`, socket, isKept)
}

// fieldsOf returns the fields of a KubeletConfiguration that are not zero: kubeadm writes zero values for fields that are
// not set.
func (m member) fieldsOf(file string) map[string]any {
	m.t.Helper()
	text, err := m.Read(file)
	must(m.t, err)
	var fields map[string]any
	must(m.t, yaml.Unmarshal([]byte(text), &fields))
	return dropZero(fields).(map[string]any)
}

func dropZero(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, field := range object {
		field = dropZero(field)
		inner, isObject := field.(map[string]any)
		if field == nil || field == "" || field == "0s" || field == 0.0 || isObject && len(inner) == 0 {
			delete(object, name)
		}
	}
	return object
}

// upgrade runs the phase of `kubeadm upgrade node` that writes config.yaml.
func (m member) upgrade() Result {
	m.t.Helper()
	r, err := m.Run(m.t.Context(), "/usr/bin/env", "-i", "PATH=/nonexistent", "HOME=/root",
		"/usr/bin/kubeadm", "upgrade", "node", "phase", "kubelet-config")
	must(m.t, err)
	return r
}

// TestUpgradeNode runs the real `kubeadm upgrade node phase kubelet-config` on nodes that prelet wrote.
func TestUpgradeNode(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	t.Run("kept", func(t *testing.T) { upgradeKeeps(t, c) })
	t.Run("garbage", func(t *testing.T) { upgradeWithGarbage(t, c) })
}

// upgradeKeeps upgrades a node that kubeadm has set up and prelet has changed. If the site does not write
// instance-config.yaml, the plan says what is undone; else nothing is, also if the cluster's own configuration changed in
// between. kubeadm's files are back after a rollback.
func upgradeKeeps(t *testing.T, c *Cluster) {
	n := newNode(t, c, NodeOptions{Kubeadm: true}, "10.0.0.11:6443")
	must(t, n.Reach(c, fmt.Sprintf("127.0.0.1:%d", c.Port))) // the address in cluster-info, which kubeadm asks next
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))

	base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)
	base["kubelet"] = base["kubelet"] + "podsPerCore: 7\n"
	must(t, c.SetConfigMap(t.Context(), "kube-system", "kubelet-config", base))

	r, err := n.Run(t.Context(), "/usr/bin/env", "-i", "PATH=/nonexistent", "HOME=/root",
		"/usr/bin/kubeadm", "join", "phase", "kubelet-start", "10.0.0.11:6443",
		"--token", c.Token, "--discovery-token-ca-cert-hash", pin, "--node-name", n.Name,
		"--cri-socket", "unix://"+socket)
	must(t, err)
	if r.Exit != 0 {
		t.Fatalf("kubeadm join: got %s, want exit 0", r)
	}
	ofKubeadm, err := n.Read(instanceFile)
	must(t, err)
	if want := "containerRuntimeEndpoint: \"unix://" + socket + "\"\n"; ofKubeadm != want {
		t.Fatalf("%s of kubeadm: got %q, want %q", instanceFile, ofKubeadm, want)
	}
	flags, err := n.Read(flagsFile)
	must(t, err)

	// Without the file: the plan says it, and kubeadm does it.
	m.site(upgradeSite(false))
	if r := prelet(t, n, 0, "plan"); !strings.Contains(r.Out+r.Err, "kubeadm upgrade node would undo settings") {
		t.Errorf("plan without the file: got %s, want a note", r)
	}
	m.run(0)
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)
	if r := m.upgrade(); r.Exit != 0 {
		t.Fatalf("kubeadm upgrade node: got %s, want exit 0", r)
	}
	if got := m.fieldsOf(configFile)["maxPods"]; got == 64.0 {
		t.Errorf("maxPods after kubeadm upgrade node, without the file: got %v, want it undone", got)
	}

	m.site(upgradeSite(true))
	m.run(0)
	before := m.fieldsOf(configFile)
	text, err := n.Read(instanceFile)
	must(t, err)
	t.Logf("%s:\n%s", instanceFile, text)
	r = m.upgrade()
	if r.Exit != 0 || !strings.Contains(r.Out, "successfully upgraded") {
		t.Fatalf("kubeadm upgrade node: got %s, want exit 0", r)
	}
	if d := cmp.Diff(before, m.fieldsOf(configFile)); d != "" {
		t.Errorf("%s after kubeadm upgrade node (-before +after):\n%s", configFile, d)
	}
	if before["maxPods"] != 64.0 || before["clusterDomain"] != nil || before["containerRuntimeEndpoint"] != "unix://"+socket {
		t.Errorf("%s: got %v, want the fields of the site and of kubeadm", configFile, before)
	}
	m.restarts()

	// The next run keeps all, and a second one writes nothing.
	m.run(0)
	if d := cmp.Diff(before, m.fieldsOf(configFile)); d != "" {
		t.Errorf("%s after the next run (-before +after):\n%s", configFile, d)
	}
	if r := m.run(0); !strings.Contains(r.Out, "No changes") {
		t.Errorf("second run: got %s, want no changes", r)
	}

	// The cluster's configuration changes: kubeadm takes the new value, and keeps those of the site.
	base["kubelet"] = strings.Replace(base["kubelet"], "podsPerCore: 7", "podsPerCore: 9", 1) +
		"podPidsLimit: 4321\nmaxPods: 99\n"
	must(t, c.SetConfigMap(t.Context(), "kube-system", "kubelet-config", base))
	if r := m.upgrade(); r.Exit != 0 {
		t.Fatalf("kubeadm upgrade node: got %s, want exit 0", r)
	}
	before["podPidsLimit"] = 4321.0
	if d := cmp.Diff(before, m.fieldsOf(configFile)); d != "" {
		t.Errorf("%s with a new kubelet-config (-want +got):\n%s", configFile, d)
	}
	m.restarts()
	m.run(0)
	if d := cmp.Diff(before, m.fieldsOf(configFile)); d != "" {
		t.Errorf("%s after the run with a new kubelet-config (-want +got):\n%s", configFile, d)
	}

	if got, err := n.Read(flagsFile); err != nil || got != flags {
		t.Errorf("%s: got %q and %v, want it unchanged: %q", flagsFile, got, err, flags)
	}
	prelet(t, n, 0, "rollback", "0")
	if got, err := n.Read(instanceFile); err != nil || got != ofKubeadm {
		t.Errorf("%s after rollback 0: got %q and %v, want %q", instanceFile, got, err, ofKubeadm)
	}
}

// restarts restarts the kubelet, as after an upgrade, and wants the node Ready again.
func (m member) restarts() {
	m.t.Helper()
	must(m.t, m.Systemctl(m.t.Context(), "restart"))
	_, err := m.c.Ready(m.t.Context(), m.Name)
	must(m.t, err)
}

// upgradeWithGarbage: files of kubeadm that are garbage never keep a node from joining, and stay as they are.
// kubeadm itself refuses such an instance-config.yaml. Once the site writes it, an upgrade works.
func upgradeWithGarbage(t *testing.T, c *Cluster) {
	n := newNode(t, c, NodeOptions{Name: "n2", Kubeadm: true}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	must(t, n.Write(instanceFile, "maxPods: [\n", 0o644))
	must(t, n.Write(flagsFile, "# \uffff\nKUBELET_KUBEADM_ARGS=--max-pods=20\n", 0o644)) // systemd ignores such a file
	m.site(upgradeSite(false))

	r := m.run(0)
	if want := "The kubelet gets no flags of " + flagsFile; !strings.Contains(r.Out+r.Err, want) {
		t.Errorf("run with garbage: got %s, want text with %q", r, want)
	}
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)
	if got, err := n.Read(instanceFile); err != nil || got != "maxPods: [\n" {
		t.Errorf("garbage in %s: got %q and %v, want it unchanged", instanceFile, got, err)
	}
	if r := m.upgrade(); r.Exit == 0 || !strings.Contains(r.Err+r.Out, "instance-config.yaml") {
		t.Errorf("kubeadm upgrade node with garbage: got %s, want a refusal that names the file", r)
	}

	// The site replaces it, and flags that both set are the site's.
	must(t, n.Write(flagsFile, "KUBELET_KUBEADM_ARGS=\"--node-labels=example.com/zone=old,example.com/k=1\"\n", 0o644))
	m.site(upgradeSite(true))
	m.run(0)
	node, err := c.Ready(t.Context(), n.Name)
	must(t, err)
	if node.Labels["example.com/zone"] != "z1" {
		t.Errorf("labels: got %v, want that of the site over that of %s", node.Labels, flagsFile)
	}
	if r := m.upgrade(); r.Exit != 0 {
		t.Fatalf("kubeadm upgrade node: got %s, want exit 0", r)
	}
	if got := m.fieldsOf(configFile)["maxPods"]; got != 64.0 {
		t.Errorf("maxPods after kubeadm upgrade node: got %v, want 64", got)
	}
	m.restarts()
}
