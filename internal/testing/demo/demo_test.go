package demo

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func start(t *testing.T) *Server {
	t.Helper()
	s := Start(ServerConfig{})
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, s *Server, certs ...tls.Certificate) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(t, s), Certificates: certs}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, url, token string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// Who may read what, and with which Status, as a kubeadm cluster answers.
func TestRights(t *testing.T) {
	s := start(t)
	s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "kind: KubeletConfiguration\n"})
	s.SetConfigMap("kube-system", "secretive", nil)
	s.Deny("kube-system", "secretive", true)
	certPEM, keyPEM := s.IssueNode("worker-1")
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	anonymous, node := client(t, s), client(t, s, pair)
	const info, config = "/api/v1/namespaces/kube-public/configmaps/cluster-info", "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
	cases := []struct {
		name    string
		client  *http.Client
		token   string
		path    string
		code    int
		reason  string
		message string
	}{
		{"anonymous reads cluster-info", anonymous, "", info, 200, "", ""},
		{
			"anonymous reads no other",
			anonymous,
			"",
			config,
			403,
			"Forbidden",
			`configmaps "kubelet-config" is forbidden: User "system:anonymous" cannot get resource "configmaps" in API group "" in the namespace "kube-system"`,
		},
		{"token", anonymous, Token, config, 200, "", ""},
		{
			"wrong token, even for cluster-info",
			anonymous,
			"abcdef.0123456789abcdef",
			info,
			401,
			"Unauthorized",
			"Unauthorized",
		},
		{"node", node, "", config, 200, "", ""},
		{
			"absent",
			node,
			"",
			"/api/v1/namespaces/kube-system/configmaps/nothing",
			404,
			"NotFound",
			`configmaps "nothing" not found`,
		},
		{
			"denied",
			node,
			"",
			"/api/v1/namespaces/kube-system/configmaps/secretive",
			403,
			"Forbidden",
			`configmaps "secretive" is forbidden: User "system:node:worker-1" cannot get resource "configmaps" in API group "" in the namespace "kube-system"`,
		},
		{
			"no such resource",
			anonymous,
			Token,
			"/api/v1/pods",
			404,
			"NotFound",
			"the server could not find the requested resource",
		},
	}
	for _, c := range cases {
		code, body := get(t, c.client, s.URL+c.path, c.token)
		if code != c.code {
			t.Errorf("%s: HTTP %d, want %d", c.name, code, c.code)
		}
		if c.reason == "" {
			if body["kind"] != "ConfigMap" || body["apiVersion"] != "v1" {
				t.Errorf("%s: got %v, want a ConfigMap", c.name, body)
			}
			continue
		}
		if body["kind"] != "Status" || body["status"] != "Failure" || body["reason"] != c.reason ||
			body["message"] != c.message ||
			body["code"] != float64(c.code) {
			t.Errorf("%s: %v", c.name, body)
		}
	}
	if n := s.Authorizations(); n != 3 {
		t.Errorf("%d requests with Authorization, want 3", n)
	}
	if n := len(s.Requests()); n != len(cases) {
		t.Errorf("%d requests, want %d", n, len(cases))
	}
}

func TestResourceVersionGrows(t *testing.T) {
	s := start(t)
	c := client(t, s)
	version := func() string {
		_, body := get(t, c, s.URL+"/api/v1/namespaces/ns/configmaps/x", Token)
		v, _ := body["metadata"].(map[string]any)["resourceVersion"].(string)
		return v
	}
	s.SetConfigMap("ns", "x", map[string]string{"a": "1"})
	first := version()
	if again := version(); again != first || first == "" {
		t.Errorf("resourceVersion without a change: got %q, want %q", again, first)
	}
	s.SetConfigMap("ns", "x", map[string]string{"a": "2"})
	if second := version(); second <= first {
		t.Errorf("resourceVersion after a change: got %q, want another one than %q", second, first)
	}
	s.mu.Lock()
	delete(s.objects, "ns/x")
	s.mu.Unlock()
	if code, _ := get(t, c, s.URL+"/api/v1/namespaces/ns/configmaps/x", Token); code != 404 {
		t.Errorf("after the deletion: got HTTP %d, want 404", code)
	}
}

// A server may have the CA of another, and another certificate.
func TestAuthority(t *testing.T) {
	ca := NewAuthority("mine")
	if hash := ca.CAHash(); !strings.HasPrefix(hash, "sha256:") || len(hash) != 71 {
		t.Errorf("got pin %q, want sha256: and 64 digits", hash)
	}
	s := New(ServerConfig{Authority: ca})
	s.TLS.Certificates = []tls.Certificate{ca.IssueServer("k8s.example")}
	s.StartTLS()
	defer s.Close()
	conn, err := tls.Dial(
		"tcp",
		s.Listener.Addr().String(),
		&tls.Config{ServerName: "k8s.example", RootCAs: pool(t, s)},
	)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func pool(t *testing.T, s *Server) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(s.CAPEM()) {
		t.Fatal("got no PEM of CAPEM, want one")
	}
	return p
}

// The vector is the one in Kubernetes' own test of its signer (pkg/controller/bootstrap, jws_test.go; openssl dgst
// -hmac agrees).
func TestSignature(t *testing.T) {
	const want = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
	if got := SignText(
		"Hello from the other side. I must have called a thousand times.",
		"joshua",
		"my voice is my passcode",
	); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
