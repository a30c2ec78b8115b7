package kube

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// servingSite lets the kubelet request the certificate of its API from the cluster, which does not approve it.
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

// TestServingCertificate joins a real kubelet with serverTLSBootstrap to a real cluster: its request is not approved, the
// server is away; then the line of the message is run, and kube-controller-manager signs.
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

	// It is not approved.
	text := verify("not approved", "no part of Kubernetes approves it")
	approval := regexp.MustCompile(`kubectl\s+certificate\s+approve\s+(csr-\w+)`)
	name := approval.FindStringSubmatch(text)
	if name == nil {
		t.Fatalf("got\n%s\nwant the line that approves", text)
	}
	doctor("not approved", "kubectl certificate approve "+name[1])
	status, err := m.Prelet(t.Context(), "status")
	must(t, err)
	if !strings.Contains(status.Out, "serving-certificate") || !strings.Contains(status.Out, "good") {
		t.Errorf("got\n%s\nwant a good verdict, and a note", status)
	}

	// The server is away: not known, and nothing is lost.
	c.StopAPIServer()
	doctor("without the server", "whether the kubelet gets a serving certificate")

	// The line of the message is run. A kubelet whose watch was closed makes another request, which prelet names then.
	must(t, c.StartAPIServer(t.Context()))
	_, err = c.Ready(t.Context(), "n1")
	must(t, err)
	must(t, waitFor(t.Context(), 2*time.Minute, "the cluster signs the certificate", func() string {
		r := prelet(t, m.Node, 0, "verify", "-o", "json")
		if strings.Contains(r.Out, `{"name":"serving","state":"ok"}`) {
			return ""
		}
		if line := approval.FindStringSubmatch(r.Out); line != nil {
			out, err := c.Kubectl(t.Context(), "certificate", "approve", line[1])
			return fmt.Sprint(out, err)
		}
		return r.String()
	}))
}
