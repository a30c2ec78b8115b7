package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
)

// Permissions to read as in a kubeadm cluster, and the next step that the message names.
func TestObject(t *testing.T) {
	s := startDemo(t)
	s.SetConfigMap("kube-system", "closed", map[string]string{"a": "b"})
	s.Deny("kube-system", "closed", true)
	s.SetConfigMap("ns", "empty", nil)
	token := func(context.Context) (string, error) { return s.Token(), nil }
	wrong := func(context.Context) (string, error) { return testToken, nil }
	req := func(namespace, name string, tok Token) ObjectRequest {
		return ObjectRequest{
			Endpoint:  Endpoint{Servers: []string{s.URL()}},
			CAPEM:     s.CAPEM(),
			Token:     tok,
			Namespace: namespace,
			Name:      name,
		}
	}
	ctx := within(t, 30*time.Second)

	got, err := fetchConfigMap(ctx, req("kube-system", "kubelet-config", token), fast())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"kubelet": "kind: KubeletConfiguration\n"}, got.Data); d != "" ||
		got.ResourceVersion == "" {
		t.Errorf("version %q, %s", got.ResourceVersion, d)
	}
	if got, err = fetchConfigMap(ctx, req("ns", "empty", token), fast()); err != nil || got.Data == nil ||
		len(got.Data) != 0 {
		t.Errorf("an empty object: got %+v, %v; want no keys and no error", got, err)
	}
	for _, c := range []struct {
		name string
		req  ObjectRequest
		want want
	}{
		{"403", req("kube-system", "closed", token), want{code: fault.ClusterDenied, text: []string{
			s.URL() + ": configmap kube-system/closed", `configmaps "closed" is forbidden: User "system:bootstrap:`, "a RoleBinding in namespace kube-system", "--resource-name=closed", "system:bootstrappers"}}},
		{"401", req("kube-system", "kubelet-config", wrong), want{code: fault.ClusterDenied, retry: true, text: []string{"HTTP 401: Unauthorized", "wrong or expired", "kubeadm token create"}}},
		{"404", req("kube-system", "nothing", token), want{code: fault.Absent, retry: true, text: []string{`configmaps "nothing" not found`, "kubectl -n kube-system get configmaps"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := fetchConfigMap(ctx, c.req, givingUp(fast(), 3))
			c.want.check(t, err)
		})
	}
}

// A token, and an object, that come late are waited for; an optional object is not.
func TestLate(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	asked := 0
	req := h.object()
	req.Token = func(context.Context) (string, error) {
		if asked++; asked < 4 {
			return "abcdef.0123456789abcdef", nil
		}
		return testToken, nil
	}
	if _, err := fetchConfigMap(within(t, 30*time.Second), req, fast()); err != nil || asked != 4 {
		t.Errorf("asked %d times: %v", asked, err)
	}

	req = h.object()
	req.Name, req.Optional = "nothing", true
	_, err := fetchConfigMap(within(t, 30*time.Second), req, fast())
	want{code: fault.Absent}.check(t, err)

	// A load balancer's response without a Kubernetes Status does not decide whether the object exists.
	h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { http.NotFound(w, r); return true }
	_, err = fetchConfigMap(within(t, 30*time.Second), req, givingUp(fast(), 3))
	want{code: fault.Absent, retry: true}.check(t, err)
}

// The token is not sent before the server is verified.
func TestTokenLast(t *testing.T) {
	good, evil := newTestCA(t, "cluster"), newTestCA(t, "evil")
	h := newHostile(t, evil)
	req := h.object()
	req.CAPEM = good.pem()
	_, err := fetchConfigMap(within(t, 30*time.Second), req, fast())
	want{code: fault.ClusterUntrusted, text: []string{h.URL}}.check(t, err)
	req.CAPEM = nil
	_, err = fetchConfigMap(within(t, 30*time.Second), req, fast())
	want{code: fault.ClusterUnusable, text: []string{"no verified CA"}}.check(t, err)
	if h.requests.Load() != 0 {
		t.Error("a request arrived")
	}
}

// A server that echoes what it was sent does not get it into a message.
func TestEcho(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, token string){
		"403":       func(w http.ResponseWriter, token string) { writeStatus(w, 403, "Forbidden", token) },
		"401":       func(w http.ResponseWriter, token string) { writeStatus(w, 401, token, "") },
		"503":       func(w http.ResponseWriter, token string) { w.WriteHeader(503); _, _ = w.Write([]byte("no " + token)) },
		"418":       func(w http.ResponseWriter, token string) { w.WriteHeader(418); _, _ = w.Write([]byte(token)) },
		"redirect":  func(w http.ResponseWriter, token string) { w.Header().Set("Location", "/"+token); w.WriteHeader(302) },
		"text":      func(w http.ResponseWriter, token string) { _, _ = w.Write([]byte(strings.Repeat("x", 28) + token)) },
		"kind":      func(w http.ResponseWriter, token string) { writeJSON(w, 200, map[string]string{"kind": token}) },
		"other":     func(w http.ResponseWriter, token string) { writeConfigMap(w, token, token, nil) },
		"malformed": func(w http.ResponseWriter, token string) { rawAnswer(w, "HTTP/1.1 "+token+"\r\n\r\n") },
		"header":    func(w http.ResponseWriter, token string) { rawAnswer(w, "HTTP/1.1 200 OK\r\n"+token+"\r\n\r\n") },
		"encoding":  func(w http.ResponseWriter, token string) { w.Header().Set("Content-Encoding", token) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, newTestCA(t, "cluster"))
			h.handle = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				if r.URL.Path == "/readyz" {
					if token != "" {
						t.Errorf("/readyz got the credential %q, want none", token)
					}
					return false
				}
				if token != testToken {
					t.Errorf("the server got the credential %q, want none", token)
				}
				answer(w, token)
				return true
			}
			opts := givingUp(fast(), 2)
			opts.OnRetry = func(r Retry) { noCanary(t, errors.New(r.Why)) }
			_, err := fetchConfigMap(within(t, 30*time.Second), h.object(), opts)
			if err == nil {
				t.Fatal("no error")
			}
			noCanary(t, err)
		})
	}
}

func rawAnswer(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_, _ = conn.Write([]byte(text + strings.Repeat(" ", 64)))
		conn.Close()
	}
}

// A joined node reads with its kubeconfig, and the token is only looked at when that is not accepted.
func TestKubeconfig(t *testing.T) {
	s := startDemo(t)
	other := startDemo(t)
	mine, err := s.NodeKubeconfig("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := s.IssueNode("worker-2")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "current.pem"), append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, err := other.NodeKubeconfig("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(s.Token()), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(user string) []byte {
		text, _, _ := strings.Cut(string(mine), "    client-certificate-data")
		return []byte(text + user)
	}
	named := []byte(
		strings.Replace(string(mine), "    server:", "    tls-server-name: elsewhere.example\n    server:", 1),
	)
	plugin := filepath.Join(dir, "plugin")
	script := "#!/bin/sh\necho " +
		"'{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"" + s.Token() + "\"}}'\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	execUser := "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      interactiveMode: Never\n  " +
		"    command: "
	noToken := func(context.Context) (string, error) {
		t.Error("the token was looked at")
		return s.Token(), nil
	}
	token := func(context.Context) (string, error) { return s.Token(), nil }
	at := Endpoint{Servers: []string{s.URL()}}
	cases := []struct {
		name string
		req  ObjectRequest
		user string // the last request's
		want want   // if no user
	}{
		{
			"data inside",
			ObjectRequest{Endpoint: at, CAPEM: s.CAPEM(), Kubeconfig: mine, Token: noToken},
			"system:node:worker-1",
			want{},
		},
		{"its own server and CA", ObjectRequest{Kubeconfig: mine}, "system:node:worker-1", want{}},
		{
			"files that rotate",
			ObjectRequest{
				Endpoint:      at,
				Kubeconfig:    with("    client-certificate: current.pem\n    client-key: current.pem\n"),
				KubeconfigDir: dir,
			},
			"system:node:worker-2",
			want{},
		},
		{
			"a token file",
			ObjectRequest{Endpoint: at, Kubeconfig: with("    tokenFile: token\n"), KubeconfigDir: dir},
			"system:bootstrap:",
			want{},
		},
		{
			"a plugin",
			ObjectRequest{Endpoint: at, Kubeconfig: with(execUser + plugin + "\n")},
			"system:bootstrap:",
			want{},
		},
		{
			"its name for its server is not for ours",
			ObjectRequest{Endpoint: at, Kubeconfig: named},
			"system:node:worker-1",
			want{},
		},
		{
			"its name for its server",
			ObjectRequest{Kubeconfig: named},
			"",
			want{code: fault.ClusterUntrusted, text: []string{"elsewhere.example"}},
		},
		{
			"malformed, with a token",
			ObjectRequest{Endpoint: at, CAPEM: s.CAPEM(), Kubeconfig: []byte("{"), Token: token},
			"system:bootstrap:",
			want{},
		},
		{
			"not accepted, with a token",
			ObjectRequest{
				Endpoint:   at,
				CAPEM:      s.CAPEM(),
				Kubeconfig: with("    token: abcdef.0123456789abcdef\n"),
				Token:      token,
			},
			"system:bootstrap:",
			want{},
		},
		{
			"not accepted",
			ObjectRequest{Endpoint: at, Kubeconfig: with("    token: " + testToken + "\n")},
			"",
			want{
				code:  fault.ClusterDenied,
				retry: true,
				text:  []string{"The credential of the node's kubeconfig is expired"},
			},
		},
		{
			"malformed",
			ObjectRequest{Endpoint: at, Kubeconfig: []byte("users: " + testToken)},
			"",
			want{code: fault.ClusterDenied, text: []string{"cannot be parsed"}},
		},
		{
			"no certificate where it says",
			ObjectRequest{
				Endpoint:      at,
				Kubeconfig:    with("    client-certificate: gone.pem\n    client-key: gone.pem\n"),
				KubeconfigDir: dir,
			},
			"",
			want{code: fault.ClusterDenied, text: []string{"gone.pem"}},
		},
		{
			"a plugin that fails",
			ObjectRequest{Endpoint: at, Kubeconfig: with(execUser + "/bin/false\n")},
			"",
			want{code: fault.ClusterDenied, retry: true, text: []string{"plugin"}},
		},
		{
			"of another cluster",
			ObjectRequest{Endpoint: at, Kubeconfig: foreign},
			"",
			want{code: fault.ClusterUntrusted, text: []string{"not signed by"}},
		},
		{
			"insecure",
			ObjectRequest{
				Endpoint: at,
				Kubeconfig: []byte(
					strings.Replace(string(mine), "server:", "insecure-skip-tls-verify: true\n    server:", 1),
				),
			},
			"",
			want{code: fault.ClusterDenied, text: []string{"insecure-skip-tls-verify"}},
		},
		{
			"http",
			ObjectRequest{Kubeconfig: []byte(strings.Replace(string(mine), "https:", "http:", 1))},
			"",
			want{code: fault.ClusterDenied, text: []string{"http is refused"}},
		},
		{
			"nothing at all",
			ObjectRequest{Endpoint: at, CAPEM: s.CAPEM()},
			"",
			want{code: fault.ClusterUnusable, text: []string{"neither a kubeconfig nor a token"}},
		},
		{
			"no such name",
			ObjectRequest{Endpoint: at, CAPEM: s.CAPEM(), Token: noToken, Namespace: "../../secrets"},
			"",
			want{code: fault.ClusterUnusable, text: []string{"invalid object name"}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.req.Name = "kubelet-config"
			if c.req.Namespace == "" {
				c.req.Namespace = "kube-system"
			}
			_, err := fetchConfigMap(within(t, 30*time.Second), c.req, givingUp(fast(), 3))
			if c.user == "" {
				c.want.check(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			all := s.Requests()
			if got := all[len(all)-1].User; !strings.HasPrefix(got, c.user) {
				t.Errorf("read as %q, want %q", got, c.user)
			}
		})
	}
}

// Only a refusal of the first credential is a reason to look at the next.
func TestTokenNotForFaults(t *testing.T) {
	s := startDemo(t)
	mine, err := s.NodeKubeconfig("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	for status, code := range map[int]fault.Code{503: fault.ClusterUnreachable, 404: fault.Absent, 302: fault.ClusterUnusable} {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return answerWith(status)(h, w, r, n) }
		req := h.object()
		req.Kubeconfig = mine
		req.Token = func(context.Context) (string, error) {
			t.Errorf("the token was looked at after %d", status)
			return testToken, nil
		}
		_, err := fetchConfigMap(within(t, 30*time.Second), req, givingUp(fast(), 2))
		want{code: code, retry: code != fault.ClusterUnusable}.check(t, err)
	}
}

// A kubeconfig ignores the environment's proxy too, and uses its own proxy-url.
func TestKubeconfigProxy(t *testing.T) {
	s := startDemo(t)
	mine, err := s.NodeKubeconfig("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	var connects atomic.Int32
	proxy := rawProxy(t, func(req *http.Request, client net.Conn) {
		connects.Add(1)
		_, _ = client.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		splice(client, req.Host)
	})
	t.Setenv("HTTPS_PROXY", "http://"+proxy)
	site := ""
	read := func(kubeconfig []byte, servers ...string) {
		t.Helper()
		req := ObjectRequest{
			Endpoint:   Endpoint{Servers: servers, ProxyURL: site},
			Kubeconfig: kubeconfig,
			Namespace:  "kube-system",
			Name:       "kubelet-config",
		}
		if _, err := fetchConfigMap(within(t, 30*time.Second), req, fast()); err != nil {
			t.Fatal(err)
		}
	}
	own := []byte(strings.Replace(string(mine), "    server:", "    proxy-url: http://"+proxy+"\n    server:", 1))
	read(mine)
	read(own, s.URL())
	if n := connects.Load(); n != 0 {
		t.Errorf("got %d connections through the environment's proxy, want 0", n)
	}
	read(own)
	if n := connects.Load(); n != 1 {
		t.Errorf("%d connections through the kubeconfig's proxy, want 1", n)
	}
	site = "http://" + proxy
	read([]byte(strings.Replace(string(own), "proxy-url: http://"+proxy, "proxy-url: http://127.0.0.1:1", 1)))
	if n := connects.Load(); n != 2 {
		t.Errorf("%d connections through the site's proxy, want one more", n)
	}
}
