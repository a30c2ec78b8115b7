package kube

import (
	"strings"
	"testing"
)

// member is a node that joins a cluster by a site that the test changes.
type member struct {
	*Node
	t   *testing.T
	c   *Cluster
	pin string
}

// newMember is a node that reaches the cluster and has its token.
func newMember(t *testing.T, c *Cluster, o NodeOptions) member {
	t.Helper()
	n := newNode(t, c, o, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	must(t, n.Credential("bootstrap-token", c.Token))

	return member{n, t, c, pin}
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

func (m member) run(want int, args ...string) CommandResult {
	m.t.Helper()
	return prelet(m.t, m.Node, want, append([]string{"run"}, args...)...)
}

const quick = `stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
stage "write" "kubelet" {}
`
