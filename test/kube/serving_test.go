package kube

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// servingSite lets the kubelet request the certificate of its API from the cluster, where nobody approves it.
const servingSite = `stage "write" "kubelet" {
  kubelet_config { patch = { serverTLSBootstrap = true } }
}
stage "restart" "kubelet" {
  verify {
    settle  = "2s"
    timeout = "40s"
  }
}
`

// coreOnly gives nodes what they need, except CertificateSigningRequests.
const coreOnly = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: core-only }
rules: [{ apiGroups: ["", "coordination.k8s.io", "node.k8s.io", "storage.k8s.io"], resources: ["*"], verbs: ["*"] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: core-only }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: core-only }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes" }]
`

// TestServingCertificate joins a real kubelet with serverTLSBootstrap to a real cluster: nobody approves its request, the
// server is away, the node may not list requests; then the line of the message is run, and kube-controller-manager signs.
// The verdict is good all the time.
func TestServingCertificate(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, servingSite)

	verify := func(what, want string) string {
		t.Helper()
		text := ""
		must(t, waitFor(t.Context(), time.Minute, "prelet verify, "+what, func() string {
			r, err := m.Prelet(t.Context(), "verify")
			text = r.Out + r.Err
			if flat := strings.Join(strings.Fields(text), " "); err != nil || r.Exit != 0 || !strings.Contains(flat, want) {
				return "got " + text + ", want exit 0 and " + want
			}
			return ""
		}))
		return text
	}
	doctor := func(what, want string) {
		t.Helper()
		r, err := m.Prelet(t.Context(), "doctor")
		must(t, err)
		if flat := strings.Join(strings.Fields(r.Out), " "); !strings.Contains(flat, want) {
			t.Errorf("doctor, %s: got\n%s\nwant text with %q", what, r, want)
		}
	}

	// Nobody approves it.
	text := verify("nobody approves", "no part of Kubernetes approves it")
	name := regexp.MustCompile(`kubectl\s+certificate\s+approve\s+(csr-\w+)`).FindStringSubmatch(text)
	if name == nil {
		t.Fatalf("got\n%s\nwant the line that approves", text)
	}
	doctor("nobody approves", "kubectl certificate approve "+name[1])
	status, err := m.Prelet(t.Context(), "status")
	must(t, err)
	if !strings.Contains(status.Out, "serving-certificate") || !strings.Contains(status.Out, "good") {
		t.Errorf("got\n%s\nwant a good verdict, and a note", status)
	}

	// The server is away: not known, and nothing is lost.
	c.StopAPIServer()
	doctor("without the server", "whether the kubelet gets a serving certificate")

	// A server on which nodes may not list requests.
	must(t, c.StartAPIServer(t.Context(), "--authorization-mode", "RBAC"))
	file := c.Path("core-only.yaml")
	must(t, os.WriteFile(file, []byte(coreOnly), 0o600))
	if out, err := c.Kubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("got %v: %s; want no error", err, out)
	}
	verify("no right to list", "may not list CertificateSigningRequests")
	doctor("no right to list", "may not list CertificateSigningRequests")

	// The line of the message is run.
	c.StopAPIServer()
	must(t, c.StartAPIServer(t.Context()))
	_, err = c.Ready(t.Context(), "n1")
	must(t, err)
	if out, err := c.Kubectl(t.Context(), "certificate", "approve", name[1]); err != nil {
		t.Fatalf("got %v: %s; want no error", err, out)
	}
	must(t, waitFor(t.Context(), 2*time.Minute, "the kubelet fetches its certificate", func() string {
		if _, err := m.Read("/var/lib/kubelet/pki/kubelet-server-current.pem"); err != nil {
			return err.Error()
		}
		return ""
	}))
	r := prelet(t, m.Node, 0, "verify", "-o", "json")
	if want := `{"name":"serving","state":"ok"}`; !strings.Contains(r.Out, want) {
		t.Errorf("verify after the approval: got %s, want text with %s", r, want)
	}
	status, err = m.Prelet(t.Context(), "status")
	must(t, err)
	if strings.Contains(status.Out, "serving-certificate") {
		t.Errorf("after the approval: got\n%s\nwant no note", status)
	}
}
