package kube

import "testing"

func TestBringUp(t *testing.T) {
	c := start(t, Options{})
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	must(t, n.Credential("bootstrap-token", c.Token))
	must(t, n.Site(map[string]string{"site.hcl": `
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["` + pin + `"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "x" { labels = { "example.com/a" = "b" } }
stage "taint" "x" { taints = ["example.com/t=v:NoSchedule"] }
stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`}))
	r := prelet(t, n, 0, "run")
	t.Log(r)
	node, err := c.Ready(t.Context(), "n1")
	must(t, err)
	t.Log(node.Labels, node.Spec.Taints, node.Status.Allocatable)
}
