package demo

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func client(t *testing.T, s *Server, certs ...tls.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CAPEM()) {
		t.Fatal("got no PEM of CAPEM, want one")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}}
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
	s := start(t, Options{})
	s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "kind: KubeletConfiguration\n"})
	s.SetConfigMap("kube-system", "secretive", nil)
	s.Deny("kube-system", "secretive", true)
	certPEM, keyPEM, err := s.IssueNode("worker-1")
	if err != nil {
		t.Fatal(err)
	}
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
		{"token", anonymous, s.Token(), config, 200, "", ""},
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
			s.Token(),
			"/api/v1/pods",
			404,
			"NotFound",
			"the server could not find the requested resource",
		},
	}
	for _, c := range cases {
		code, body := get(t, c.client, s.URL()+c.path, c.token)
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
	s := start(t, Options{})
	c := client(t, s)
	version := func() string {
		_, body := get(t, c, s.URL()+"/api/v1/namespaces/ns/configmaps/x", s.Token())
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
	if code, _ := get(t, c, s.URL()+"/api/v1/namespaces/ns/configmaps/x", s.Token()); code != 404 {
		t.Errorf("after the deletion: got HTTP %d, want 404", code)
	}
}

func TestOptions(t *testing.T) {
	if _, err := Start(Options{Token: "short.token"}); err == nil {
		t.Error("a malformed token: got no error, want one")
	}
	s := start(t, Options{Token: "abcdef.0123456789abcdef", Names: []string{"k8s.example"}})
	if s.Token() != "abcdef.0123456789abcdef" || !strings.HasPrefix(s.CAHash(), "sha256:") || len(s.CAHash()) != 71 {
		t.Errorf("token %q, hash %q", s.Token(), s.CAHash())
	}
	conn, err := tls.Dial(
		"tcp",
		strings.TrimPrefix(s.URL(), "https://"),
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
	p.AppendCertsFromPEM(s.CAPEM())
	return p
}

// The vector is the one in Kubernetes' own test of its signer (pkg/controller/bootstrap, jws_test.go; openssl dgst
// -hmac agrees).
func TestSignature(t *testing.T) {
	const want = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
	if got := sign(
		"Hello from the other side. I must have called a thousand times.",
		"joshua",
		"my voice is my passcode",
	); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
