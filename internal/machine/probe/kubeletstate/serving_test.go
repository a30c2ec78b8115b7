package kubeletstate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/testing/demo"
)

// request is a CertificateSigningRequest in JSON.
func request(name, user, age, status string) string {
	created := servingNow.Add(-mustDuration(age)).UTC().Format(time.RFC3339)

	return fmt.Sprintf(`{"metadata":{"name":%q,"creationTimestamp":%q},"spec":{"username":%q,"signerName":%q},"status":{%s}}`,
		name, created, user, ServingSigner, status)
}

// servingNow has no fraction of a second, as the times in the cluster.
var servingNow = time.Now().Truncate(time.Second)

func mustDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}

	return d
}

func listOf(more string, items ...string) string {
	return `{"kind":"CertificateSigningRequestList","metadata":{` + more + `},"items":[` + strings.Join(items, ",") + `]}`
}

// TestServing checks the error for a node without a serving certificate, for each response of the cluster.
func TestServing(t *testing.T) {
	const (
		own      = "system:node:n1"
		approved = `"conditions":[{"type":"Approved"}]`
		selector = "/apis/certificates.k8s.io/v1/certificatesigningrequests?" +
			"fieldSelector=spec.signerName%3Dkubernetes.io%2Fkubelet-serving&limit=500"
	)
	var answer demo.BadResponse
	p, asked := newProbe(t, "n1", &answer)
	p.Now = func() time.Time { return servingNow }

	for _, c := range []struct {
		name, body  string
		code        int
		state, says string
	}{
		{"pending", listOf("", request("csr-other", "system:node:n2", "1s", ""), request("csr-old", own, "2h", ""),
			request("csr-new", own, "12s", "")), 200, "failed",
			"request csr-new has waited for approval for 12s, and no part of Kubernetes approves it (as of " +
				servingNow.UTC().Format(time.RFC3339) + "; prelet verify looks again). Run: kubectl certificate approve csr-new"},
		{"signed", listOf("", request("csr-1", own, "3s", approved+`,"certificate":"eA=="`)), 200, "ok", ""},
		{"an old one is signed, the new one is pending", listOf("", request("csr-1", own, "3h", approved+`,"certificate":"eA=="`),
			request("csr-2", own, "5s", "")), 200, "failed", "approve csr-2"},
		{"approved, and not signed", listOf("", request("csr-1", own, "3s", approved)), 200, "failed", "approved, and not signed"},
		{"denied", listOf("", request("csr-1", own, "3s", `"conditions":[{"type":"Denied","reason":"Policy","message":"no"}]`)),
			200, "failed", "is denied (Policy: no)"},
		{"failed", listOf("", request("csr-1", own, "3s", `"conditions":[{"type":"Failed","reason":"SignerValidationFailure"},{"type":"Approved"}]`)),
			200, "failed", "is failed (SignerValidationFailure)"},
		{"none", listOf(""), 200, "failed", "the cluster has no request of it"},
		{"too many", listOf(`"continue":"x"`, request("csr-other", "system:node:n2", "1s", "")), 200, "failed", "too many requests"},
		{"no right", `{"kind":"Status","reason":"Forbidden","message":"n1 cannot list resource"}`, 403, "failed",
			"may not list CertificateSigningRequests (n1 cannot list resource)"},
		{"a credential that has expired", `{"kind":"Status","reason":"Unauthorized"}`, 401, "unknown", "answered 401"},
		{"a server that fails", ``, 503, "unknown", "answered 503"},
		{"a portal", `<html>`, 200, "unknown", "invalid list"},
		{"another object", `{"kind":"NodeList"}`, 200, "unknown", `kind is "NodeList"`},
	} {
		answer = demo.BadResponse{Status: c.code, Body: c.body}
		err := p.Serving(t.Context(), "/pki")
		if verdictOf(err) != c.state || c.says != "" && !strings.Contains(fmt.Sprint(err), c.says) || *asked != "GET "+selector {
			t.Errorf("%s: got %s after %q: %v; want %s after GET %s, with %q", c.name, verdictOf(err), *asked, err, c.state,
				selector, c.says)
		}
	}

	gone := demo.Start(demo.ServerConfig{})
	gone.Close()
	place(t, p.Root, joined.Conf, string(gone.NodeKubeconfig("n1")))
	if err := p.Serving(t.Context(), "/pki"); verdictOf(err) != "unknown" ||
		!strings.Contains(fmt.Sprint(err), "the cluster does not answer") {
		t.Errorf("without a server: got %v, want it unknown", err)
	}

	// A certificate that is valid, garbage, and one that has expired. The key in the file is not in a message.
	pair, key, err := cert.GenerateSelfSignedCertKey("n1", nil, nil)
	must(t, err)
	*asked = ""
	place(t, p.Root, "/pki/kubelet-server-1.pem", string(key)+string(pair))
	must(t, os.Symlink("kubelet-server-1.pem", filepath.Join(p.Root, "/pki/kubelet-server-current.pem")))
	if err := p.Serving(t.Context(), "/pki"); err != nil || *asked != "" {
		t.Errorf("with a certificate: got %v after %q, want no error and no request", err, *asked)
	}
	p.Now = func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }
	if err := p.Serving(t.Context(), "/pki"); verdictOf(err) != "unknown" || !strings.Contains(fmt.Sprint(err), "has expired at") {
		t.Errorf("a year later: got %v, want that it has expired", err)
	}
	p.Now = time.Now
	place(t, p.Root, "/pki/kubelet-server-1.pem", string(key)+"garbage")
	if err := p.Serving(t.Context(), "/pki"); !strings.Contains(fmt.Sprint(err), "contains none") ||
		strings.Contains(fmt.Sprint(err), "PRIVATE") {
		t.Errorf("with garbage: got %v, want that it contains none", err)
	}
}
