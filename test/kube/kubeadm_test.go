package kube

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	// timesFaster is the project's budget, see docs/develop/performance.md: how many times faster prelet has to be than
	// kubeadm.
	timesFaster = 5
	// tolerance is the factor by which a busy machine may miss it.
	tolerance = 1.5
)

// TestFasterThanKubeadm runs `kubeadm join phase kubelet-start` and `prelet run` in turns on one node and one
// cluster, with the same token and pin. Both verify cluster-info, read kubelet-config, and write the CA, the
// bootstrap kubeconfig, the kubelet's configuration and its flags. Neither starts a kubelet: prelet has a root of its
// own, kubeadm finds no init system.
//
// The test is not parallel, so that nothing else runs.
func TestFasterThanKubeadm(t *testing.T) {
	const rounds = 7

	c := start(t, ClusterOptions{})
	m := newMember(t, c, NodeOptions{Name: "kubeadm-race", Kubeadm: true})
	n, pin := m.Node, m.pin
	must(t, n.Reach(c, fmt.Sprintf("127.0.0.1:%d", c.Port))) // the address in cluster-info, which kubeadm asks next

	m.site(`stage "write" "kubelet" {}`)

	kubeadm := []string{
		"/usr/bin/env", "-i", "PATH=/nonexistent", "HOME=/root",
		"/usr/bin/kubeadm", "join", "phase", "kubelet-start", "10.0.0.11:6443",
		"--token", c.Token, "--discovery-token-ca-cert-hash", pin, "--node-name", n.Name,
		"--cri-socket", "unix:///nonexistent.sock",
	}
	prelet := []string{"/usr/bin/prelet", "run", "--config", "/etc/prelet", "--root", "/tmp/prelet-root"}

	var kubeadmTook, preletTook []time.Duration
	for range rounds {
		cleanNode(t, n)
		kubeadmTook = append(kubeadmTook, timed(t, n, kubeadm, "/etc/kubernetes/bootstrap-kubelet.conf"))

		cleanNode(t, n)
		preletTook = append(preletTook, timed(t, n, prelet, "/tmp/prelet-root/etc/kubernetes/bootstrap-kubelet.conf"))
	}

	k, p := medianDuration(kubeadmTook), medianDuration(preletTook)
	ratio := k.Seconds() / p.Seconds()
	t.Logf(
		"kubeadm join phase kubelet-start %v, prelet run %v, medians of %d: prelet is %.1f times faster, the "+
			"budget is %d",
		k.Round(time.Millisecond),
		p.Round(time.Millisecond),
		rounds,
		ratio,
		timesFaster,
	)

	if ratio < timesFaster/tolerance {
		t.Errorf("prelet is %.1f times faster than kubeadm, want at least %d, less %.1f for a busy machine",
			ratio, timesFaster, tolerance)
	}
}

// cleanNode removes what either program wrote, and makes the folders that packages bring.
func cleanNode(t *testing.T, n *Node) {
	t.Helper()

	r, err := n.Run(t.Context(), "/bin/sh", "-c", `rm -rf /tmp/prelet-root /etc/kubernetes/* /var/lib/kubelet/*
		mkdir -p /tmp/prelet-root/etc/kubernetes/pki /tmp/prelet-root/etc/default /tmp/prelet-root/var/lib/kubelet`)
	must(t, err)
	if r.Exit != 0 {
		t.Fatalf("removing the files of the last round: got %s, want exit 0", r)
	}
}

// timed runs a command in the node and returns how long it took. It fails unless the command wrote a file.
func timed(t *testing.T, n *Node, command []string, written string) time.Duration {
	t.Helper()

	began := time.Now()
	r, err := n.Run(context.WithoutCancel(t.Context()), command...)
	took := time.Since(began)
	must(t, err)
	if r.Exit != 0 {
		t.Fatalf("%q: got %s, want exit 0", command, r)
	}

	if _, err := n.Read(written); err != nil {
		t.Fatalf("%q: %v; want that file written", command, err)
	}

	return took
}

func medianDuration(d []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(d))[len(d)/2]
}
