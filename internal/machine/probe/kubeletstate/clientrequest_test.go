package kubeletstate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/testing/demo"
)

// clientRequest is a CertificateSigningRequest of a machine that joins as a node, in JSON.
func clientRequest(t *testing.T, name, node, age, status string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	text, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, key)
	must(t, err)
	text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: text})

	return fmt.Sprintf(
		`{"metadata":{"name":%q,"creationTimestamp":%q},"spec":{"username":"system:bootstrap:abcdef","signerName":%q,`+
			`"request":%q},"status":{%s}}`, name, servingNow.Add(-mustDuration(age)).UTC().Format(time.RFC3339),
		ClientSigner, base64.StdEncoding.EncodeToString(text), status)
}

// TestClientRequest: a node that has not joined says what its own request waits for, by each response of the cluster.
func TestClientRequest(t *testing.T) {
	const denied = `"conditions":[{"type":"Denied","reason":"Policy","message":"unknown machine"}]`
	const approved = `"conditions":[{"type":"Approved"}]`
	other := clientRequest(t, "csr-other", "n2", "1s", "")
	own := func(status string) string { return clientRequest(t, "csr-1", "n1", "12s", status) }
	others, pending, isDenied := listOf("", other), listOf("", other, own("")), listOf("", other, own(denied))
	again := listOf("", clientRequest(t, "csr-1", "n1", "9m", denied), clientRequest(t, "csr-2", "n1", "3s", ""))
	unsigned := listOf("", own(approved))
	now := servingNow.UTC().Format(time.RFC3339)
	for _, c := range table.YAML[[]struct {
		Name, Body string
		Code       int
		Says       string
	}](t, `
- {name: pending, body: '{pending}', code: 200,
   says: 'request csr-1 has waited for approval for 12s (as of {now}; prelet verify looks again).
     Run: kubectl certificate approve csr-1'}
- {name: denied, body: '{isDenied}', code: 200, says: 'request csr-1 is denied (Policy: unknown machine)'}
- {name: 'denied, and requested again', body: '{again}', code: 200, says: approve csr-2}
- {name: approved, body: '{unsigned}', code: 200, says: 'approved, and not signed'}
- {name: of others only, body: '{others}', code: 200, says: journalctl -u kubelet shows why}
- {name: no right, body: '{"kind":"Status"}', code: 403, says: journalctl -u kubelet shows why}
- {name: a token that has expired, body: '{"kind":"Status"}', code: 401, says: does not accept the token}
- {name: garbage, body: <html>, code: 200, says: journalctl -u kubelet shows why}
`, "pending", pending, "now", now, "isDenied", isDenied, "again", again, "unsigned", unsigned, "others", others) {
		t.Run(c.Name, func(t *testing.T) {
			d := demo.New(demo.ServerConfig{})
			authorized := ""
			d.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if !strings.HasSuffix(r.URL.Path, "/certificatesigningrequests") {
					return false
				}
				authorized = r.Header.Get("Authorization")
				w.WriteHeader(c.Code)
				_, _ = io.WriteString(w, c.Body)
				return true
			}
			d.StartTLS()
			t.Cleanup(d.Close)
			p := Probe{Root: t.TempDir(), Now: func() time.Time { return servingNow }}
			place(t, p.Root, joined.BootstrapConf, kubelet.BootstrapKubeconfig(d.URL, "", string(d.CAPEM()), demo.Token))

			err := p.Kubeconfig(t.Context(), "n1")
			if verdictOf(err) != "failed" || !strings.Contains(err.Error(), c.Says) ||
				strings.Contains(err.Error(), demo.TokenSecret) {
				t.Errorf("got %v; want a failure with %q, without the token", err, c.Says)
			}
			if authorized != "Bearer "+demo.Token {
				t.Errorf("got a request without the token of the join, want one with it")
			}
		})
	}
}
