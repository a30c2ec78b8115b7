package kubeletstate

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/testing/demo"
)

// The kubelet's own certificate is the one in its file. Without permission or connection the result is unknown.
func TestConfigz(t *testing.T) {
	d := demo.Start(demo.ServerConfig{})
	defer d.Close()
	cert, key := d.IssueNode("client")
	status := http.StatusOK
	body := `{"kubeletconfig":{"maxPods":64}}`
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 || r.URL.Path != "/configz" {
			t.Errorf("got a request for %s as %v; want /configz with the client certificate",
				r.URL, r.TLS.PeerCertificates)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	root := t.TempDir()
	place(
		t,
		root,
		"/pki/kubelet.crt",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
	)
	place(t, root, "/pki/other.crt", string(d.CAPEM()))
	ask := func(p Probe, served string, planned any) (string, string) {
		differ, err := p.Configz(
			t.Context(),
			kubelet.Configz{
				URL:        s.URL + "/configz",
				Credential: "configz",
				Served:     []string{"/pki/none.pem", served},
				Planned:    map[string]any{"maxPods": planned},
			},
		)
		if err != nil {
			return verdictOf(err), err.Error()
		}
		return "ok", strings.Join(differ, ", ")
	}
	good := Probe{Root: root, Credentials: demo.Credentials{"configz": string(cert) + string(key)}}
	for _, c := range []struct {
		name, served string
		probe        Probe
		status       int
		body         string
		planned      any
		state, says  string
	}{
		{"as planned", "/pki/kubelet.crt", good, 200, "", 64.0, "ok", ""},
		{"another", "/pki/kubelet.crt", good, 200, "", 110.0, "ok", "maxPods is 64 and not 110"},
		{"somebody else answers", "/pki/other.crt", good, 200, "", 64.0, "unknown", "another certificate than " +
			"the kubelet's files"},
		{"no credential", "/pki/kubelet.crt", Probe{Root: root, Credentials: demo.Credentials{}}, 200, "", 64.0, "unknown", "LoadCredential=configz"},
		{"no certificate", "/pki/kubelet.crt", Probe{Root: root, Credentials: demo.Credentials{"configz": "secret words"}}, 200, "", 64.0, "unknown", "is not a certificate and its key"},
		{"may not", "/pki/kubelet.crt", good, 403, "Forbidden (user=x)", 64.0, "unknown", "may not get nodes/configz"},
		{"nonsense", "/pki/kubelet.crt", good, 200, "<html>", 64.0, "unknown", "without a kubeletconfig"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body = c.status, `{"kubeletconfig":{"maxPods":64}}`
			if c.body != "" {
				body = c.body
			}
			state, says := ask(c.probe, c.served, c.planned)
			if state != c.state || !strings.Contains(says, c.says) || c.says == "" && says != "" ||
				strings.Contains(says, "secret words") {
				t.Errorf("%s: %s, want %s: %s", state, says, c.state, c.says)
			}
		})
	}
}
