package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// Permissions to read as in a kubeadm cluster, and the next step that the message names.
func TestObject(t *testing.T) {
	s := newHostile(t, nil)
	s.SetConfigMap("kube-system", "closed", map[string]string{"a": "b"})
	s.Deny("kube-system", "closed", true)
	s.SetConfigMap("ns", "empty", nil)
	wrong := func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil }
	req := func(namespace, name string, tok Token) ObjectRequest {
		r := s.object()
		r.Namespace, r.Name, r.Token = namespace, name, tok
		return r
	}
	ctx := within(t, time.Minute)

	got, err := fetchConfigMap(ctx, req("kube-system", "kubelet-config", readTestToken), fast())
	must(t, err)
	if d := gocmp.Diff(map[string]string{"kubelet": "kind: KubeletConfiguration\n"}, got.Data); d != "" ||
		got.ResourceVersion == "" {
		t.Errorf("version %q, %s", got.ResourceVersion, d)
	}
	if got, err = fetchConfigMap(ctx, req("ns", "empty", readTestToken), fast()); err != nil || got.Data == nil ||
		len(got.Data) != 0 {
		t.Errorf("an empty object: got %+v, %v; want no keys and no error", got, err)
	}
	for _, c := range []struct {
		name string
		req  ObjectRequest
		want want
	}{
		{"403", req("kube-system", "closed", readTestToken), want{Code: fault.ClusterDenied, Text: []string{
			s.URL + ": configmap kube-system/closed", `configmaps "closed" is forbidden: User "system:bootstrap:`, "a RoleBinding in namespace kube-system", "--resource-name=closed", "system:bootstrappers"}}},
		{"401", req("kube-system", "kubelet-config", wrong), want{Code: fault.ClusterDenied, Retry: true, Text: []string{"HTTP 401: Unauthorized", "wrong or expired", "kubeadm token create"}}},
		{"404", req("kube-system", "nothing", readTestToken), want{Code: fault.Absent, Retry: true, Text: []string{`configmaps "nothing" not found`, "kubectl -n kube-system get configmaps"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := fetchConfigMap(ctx, c.req, givingUp(fast(), 3))
			c.want.check(t, err)
		})
	}
}

// A token, and an object, that come late are waited for; an optional object is not.
func TestLate(t *testing.T) {
	h := newHostile(t, nil)
	asked := 0
	req := h.object()
	req.Token = func(context.Context) (string, error) {
		if asked++; asked < 4 {
			return "abcdef.0123456789abcdef", nil
		}
		return demo.Token, nil
	}
	if err := readObject(t, req, fast()); err != nil || asked != 4 {
		t.Errorf("asked %d times: %v", asked, err)
	}

	req = h.object()
	req.Name, req.Optional = "nothing", true
	err := readObject(t, req, fast())
	want{Code: fault.Absent}.check(t, err)

	// A load balancer's response without a Kubernetes Status does not decide whether the object exists.
	h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool { http.NotFound(w, r); return true }
	err = readObject(t, req, givingUp(fast(), 3))
	want{Code: fault.Absent, Retry: true}.check(t, err)
}

// The token is not sent before the server is verified.
func TestTokenLast(t *testing.T) {
	good, evil := demo.NewAuthority("cluster"), demo.NewAuthority("evil")
	h := newHostile(t, evil)
	req := h.object()
	req.CAPEM = good.CAPEM()
	err := readObject(t, req, fast())
	want{Code: fault.ClusterUntrusted, Text: []string{h.URL}}.check(t, err)
	req.CAPEM = nil
	err = readObject(t, req, fast())
	want{Code: fault.ClusterUnusable, Text: []string{"no verified CA"}}.check(t, err)
	if len(h.Requests()) != 0 {
		t.Error("a request arrived")
	}
}

// A server that echoes what it was sent does not get it into a message.
func TestEcho(t *testing.T) {
	var answers map[string]demo.BadResponse
	readData(t, "echo.yaml", &answers)
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, nil)
			h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
				got, want := r.Header.Get("Authorization"), "Bearer "+demo.Token
				if r.URL.Path == "/readyz" {
					want = ""
				}
				if got != want {
					t.Errorf("%s got the credential %q, want %q", r.URL.Path, got, want)
				}
				return want != "" && answer.Respond(w, r, n)
			}
			opts := givingUp(fast(), 2)
			opts.OnRetry = func(r Retry) { noCanary(t, errors.New(r.Why)) }
			err := h.read(t, opts)
			if err == nil {
				t.Fatal("no error")
			}
			noCanary(t, err)
		})
	}
}

// A joined node reads with its kubeconfig, and the token is only looked at when that is not accepted.
func TestKubeconfig(t *testing.T) {
	s, other := newHostile(t, nil), newHostile(t, nil)
	cert, key := s.IssueNode("worker-1")
	rotated, rotatedKey := s.IssueNode("worker-2")
	dir := string(writeFolder(t, map[string]string{
		"current.pem": string(rotated) + string(rotatedKey),
		"token":       demo.Token,
		"plugin": `#!/bin/sh
			echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + demo.Token + `"}}'
		`,
	}))
	var cases []struct {
		Name                string
		Request             ObjectRequest
		Cluster, User, File object
		Text, Token         string
		ReadsAs             string `json:"reads as"`
		Want                want
	}
	base64 := base64.StdEncoding.EncodeToString
	readData(t, "object.yaml", &cases, "URL", s.URL, "CA64", base64(s.CAPEM()), "OTHER64", base64(other.CAPEM()),
		"CERT64", base64(cert), "KEY64", base64(key), "DIR", dir, "CANARY", "x"+demo.Token)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			req := c.Request
			req.Name, req.Namespace = "kubelet-config", cmp.Or(req.Namespace, "kube-system")
			req.Kubeconfig, req.KubeconfigDir = []byte(c.Text), dir
			if c.User != nil {
				req.Kubeconfig = kubeconfig(t, s.URL, s.CAPEM(), c.Cluster, c.User, nil)
			}
			if c.Token != "" {
				req.Token = func(context.Context) (string, error) {
					if c.Token == "unused" {
						t.Error("the token was looked at")
					}
					return demo.Token, nil
				}
			}
			err := readObject(t, req, givingUp(fast(), 3))
			if c.ReadsAs == "" {
				c.Want.check(t, err)
				return
			}
			must(t, err)
			all := s.Requests()
			if got := all[len(all)-1].User; !strings.HasPrefix(got, c.ReadsAs) {
				t.Errorf("read as %q, want %q", got, c.ReadsAs)
			}
		})
	}
}

// Only a refusal of the first credential is a reason to look at the next.
func TestTokenNotForFaults(t *testing.T) {
	for status, code := range map[int]fault.Code{503: fault.ClusterUnreachable, 404: fault.Absent, 302: fault.ClusterUnusable} {
		h := newHostile(t, nil)
		h.Intercept = answerWith(status)
		req := h.object()
		req.Kubeconfig = h.NodeKubeconfig("worker-1")
		req.Token = func(context.Context) (string, error) {
			t.Errorf("the token was looked at after %d", status)
			return demo.Token, nil
		}
		err := readObject(t, req, givingUp(fast(), 2))
		want{Code: code, Retry: code != fault.ClusterUnusable}.check(t, err)
	}
}

// A kubeconfig ignores the environment's proxy too, and uses its own proxy-url.
func TestKubeconfigProxy(t *testing.T) {
	s := newHostile(t, nil)
	mine := s.NodeKubeconfig("worker-1")
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
		req := withKubeconfig(kubeconfig, "")
		req.Servers, req.ProxyURL = servers, site
		must(t, readObject(t, req, fast()))
	}
	own := []byte(strings.Replace(string(mine), "    server:", "    proxy-url: http://"+proxy+"\n    server:", 1))
	read(mine)
	read(own, s.URL)
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
